"""Counts at random genes, as large as a benchmark wants them."""

import numpy as np
import scipy.sparse


def random_counts(seed: int, n_cells: int, n_genes: int, per_cell: int) -> scipy.sparse.csr_matrix:
    """float32; a gene that is drawn twice for a cell is one entry, of the sum."""
    random = np.random.default_rng(seed)
    genes = np.sort(random.integers(0, n_genes, (n_cells, per_cell), dtype=np.int32), axis=1)
    values = random.geometric(0.4, genes.size).astype(np.float32)
    starts = np.arange(0, genes.size + 1, per_cell)
    matrix = scipy.sparse.csr_matrix((values, genes.ravel(), starts), shape=(n_cells, n_genes))
    matrix.sum_duplicates()
    return matrix
