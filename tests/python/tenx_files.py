"""10x .h5 files put together by hand: Cell Ranger 2 and 3, probes, unsorted genes."""

import h5py
import numpy as np
import scipy.sparse

N_CELLS, N_GENES, N_ANTIBODIES, N_GUIDES = 60, 90, 7, 3


def shuffled_rows(matrix: scipy.sparse.csr_matrix, seed: int = 0) -> scipy.sparse.csr_matrix:
    random, made = np.random.default_rng(seed), matrix.copy()
    for begin, end in zip(matrix.indptr, matrix.indptr[1:], strict=False):
        order = begin + random.permutation(end - begin)
        made.indices[begin:end], made.data[begin:end] = matrix.indices[order], matrix.data[order]
    made.has_sorted_indices = False
    return made


def counts(n_features: int, seed: int = 0) -> scipy.sparse.csr_matrix:
    """Cells by features; the last cell has no count."""
    matrix = scipy.sparse.random(
        N_CELLS - 1, n_features, 0.3, format="csr", random_state=seed, dtype=np.int32,
        data_rvs=lambda n: np.arange(1, n + 1) % 300 + 1,
    )  # fmt: skip
    empty = scipy.sparse.csr_matrix((1, n_features), dtype=np.int32)
    return shuffled_rows(scipy.sparse.vstack([matrix, empty], format="csr"), seed)


def barcodes(n: int = N_CELLS) -> np.ndarray:
    return np.array([f"ACGT{i:012d}-1".encode() for i in range(n)])


def write_matrix(group: h5py.Group, matrix: scipy.sparse.csr_matrix) -> None:
    """As 10x does: gzip, features x barcodes by columns, indices of 64 bits."""
    for name, values in (
        ("data", matrix.data), ("indices", matrix.indices.astype("<i8")),
        ("indptr", matrix.indptr.astype("<i8")), ("shape", np.array(matrix.shape[::-1], "<i4")),
        ("barcodes", barcodes(matrix.shape[0])),
    ):  # fmt: skip
        chunk = None if values.size == 0 else (min(len(values), 97),)
        group.create_dataset(name, data=values, chunks=chunk, compression=chunk and "gzip")


def text(values) -> np.ndarray:
    return np.array([value.encode() for value in values])


def write_cellranger3(path, types: dict | None = None, **more_features) -> None:
    """Features of these types, so many each; a genome of their own for every second gene."""
    types = {"Gene Expression": N_GENES} if types is None else types
    kinds = [name for name, n in types.items() for _ in range(n)]
    n = len(kinds)
    names = [f"gene{i}" if kind == "Gene Expression" else f"ab{i}" for i, kind in enumerate(kinds)]
    genomes = [("hg38", "mm10")[i % 2] if names[i][0] == "g" else "" for i in range(n)]
    with h5py.File(path, "w") as file:
        file.attrs["filetype"] = "matrix"
        file.attrs["version"] = 2
        group = file.create_group("matrix")
        write_matrix(group, counts(n))
        features = group.create_group("features")
        features["_all_tag_keys"] = text(["genome"])
        features["feature_type"] = text(kinds)
        features["genome"] = text(genomes)
        features["id"] = text(f"ENSG{i:05d}" for i in range(n))
        features["name"] = text(names)
        for name, values in more_features.items():
            features[name.replace("__", "/")] = values


def write_cellranger2(path, genomes=("hg19",)) -> None:
    with h5py.File(path, "w") as file:
        for seed, genome in enumerate(genomes):
            group = file.create_group(genome)
            write_matrix(group, counts(N_GENES + seed, seed))
            group["genes"] = text(f"{genome}_{i:05d}" for i in range(N_GENES + seed))
            group["gene_names"] = text(f"{genome}g{i}" for i in range(N_GENES + seed))
