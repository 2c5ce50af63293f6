"""Files of cells without genes, such as a choice that found none, beside files that have some."""

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import cellfeed as cf

VALUES = np.array([[1, 2, 0], [0, 0, 3], [4, 5, 6]], "float32")
ORDERS = [(0, 1), (1, 0), (0, 1, 2), (1, 0, 2)]


@pytest.fixture(params=["csr", "dense"])
def paths(request, tmp_path):
    """[0] has no genes, the others have the same three."""
    paths = [tmp_path / f"{i}.h5ad" for i in range(3)]
    for i, path in enumerate(paths):
        whole = anndata.AnnData(
            scipy.sparse.csr_matrix(VALUES) if request.param == "csr" else VALUES,
            obs=pd.DataFrame(index=[f"{cell}{i}" for cell in "abc"]),
            var=pd.DataFrame({"symbol": ["x", "y", "z"]}, index=["gene0", "gene1", "gene2"]),
        )
        (whole if i else whole[:, :0].copy()).write_h5ad(path)
    return paths


def expected(order):
    return np.vstack([VALUES if i else np.zeros_like(VALUES) for i in order])


def matrix_of(batch):
    return batch.x.toarray() if scipy.sparse.issparse(batch.x) else batch.x


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("genes", [None, ["gene2", "gene0"]])
@pytest.mark.parametrize("output", ["csr", "dense"])
def test_their_cells_are_zeros(paths, order, genes, output):
    cells = cf.open([paths[i] for i in order], join="outer")
    transforms = [cf.SelectGenes(genes)] if genes else []
    columns = [2, 0] if genes else [0, 1, 2]
    for _ in range(5):  # memory that was used before is not what a batch has
        np.full(100_000, 7.0)
        loader = cf.Loader(
            cells, cf.Streaming(), batch_size=16, output=output, transforms=transforms, threads=1
        )
        (batch,) = loader
        np.testing.assert_array_equal(matrix_of(batch), expected(order)[:, columns])
        chosen = cells[:, genes] if genes else cells
        (batch,) = cf.Loader(chosen, cf.Streaming(), batch_size=16, output=output, threads=1)
        np.testing.assert_array_equal(matrix_of(batch), expected(order)[:, columns])


def test_their_genes_are_absent_and_not_zero(paths):
    cells = cf.open(paths[:2], join="outer")
    mask = cells.read(slice(None)).gene_mask
    np.testing.assert_array_equal(mask, np.repeat([[False] * 3, [True] * 3], 3, axis=0))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("gene_order", ["source", "mean"])
def test_shards_and_exports_of_both_are_whole(paths, order, gene_order, tmp_path):
    given = [paths[i] for i in order]
    cf.convert_to_shards(cf.open(given, join="outer"), tmp_path / "shards", gene_order=gene_order)
    cf.export_h5ad(tmp_path / "shards", tmp_path / "back.h5ad")
    back = anndata.read_h5ad(tmp_path / "back.h5ad")[:, ["gene0", "gene1", "gene2"]]
    np.testing.assert_array_equal(back.X.toarray(), expected(order))
    assert list(back.var["symbol"]) == ["x", "y", "z"]
    cf.export_h5ad(cf.open(given, join="outer"), tmp_path / "joined.h5ad")
    joined = anndata.read_h5ad(tmp_path / "joined.h5ad")
    x = joined.X.toarray() if scipy.sparse.issparse(joined.X) else joined.X
    np.testing.assert_array_equal(x, expected(order))
    assert list(joined.var["symbol"]) == ["x", "y", "z"]


def test_dense_shards_of_both_are_whole(paths, tmp_path):
    cf.convert_to_shards(cf.open(paths[:2], join="outer"), tmp_path / "shards", layout="dense")
    cells = cf.open(tmp_path / "shards")
    np.testing.assert_array_equal(matrix_of(cells.read(slice(None))), expected((0, 1)))
