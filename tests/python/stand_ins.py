"""Made files that stand in for the real data sets: the same names, columns and traps.

Counts are one plus a negative binomial, in genes that a cell holds by their own frequency.
What the real files are awkward in, these are too, each at the place where the real one is:

- ``scp1884``: gzip, values from 1 to 40,238 in float32, many labels;
- ``zheng68k_165``: few cells, a cell without counts, categories with one cell;
- ``sciplex3``: repeated entries, values down to 1e-7, int16 codes, one category per cell;
- ``telencephalon_val``: not compressed, explicit zeros, an index with a name of its own, integer
  categories with missing codes, a column of var that repeats names;
- ``derived_mix_*``: different genes in different orders, 3 and 5 categories, columns that only
  some files have, indices ascending, shuffled and descending;
- ``derived_placenta_visium_csr``: int32 values in lzf chunks;
- ``pbmc-small-x-csr``: float64 that float32 does not hold, every entry stored;
- ``pbmc68k_reduced_v08``: dense X, unsorted ``raw/X`` with more genes;
- ``dentategyrus_100obs_layers``: three layers, obs without columns, the dataframe of anndata 0.7;
- ``anndataR_example_all_kinds``: nullable columns, layers in every encoding;
- and what `cf.open` refuses: CSC.
"""

import pathlib
import warnings

import anndata
import h5py
import numpy as np
import pandas as pd
import scipy.sparse

LINES = ["H2228", "H1975", "HCC827", "A549", "H838"]


def make_stand_ins(folder: pathlib.Path) -> pathlib.Path:
    """Fill ``folder/anndata``; returns ``folder``."""
    into = folder / "anndata"
    into.mkdir(parents=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what anndata says about names and views
        for make in (_wide, _few, _perturbed, _normalised, _layers, _placenta, _small, _raw):
            make(into)
        _all_kinds(into)
        _anndata06(into)
        for seed, (name, genes, order) in enumerate(
            [
                ("sc_celseq2", slice(0, 2400), "ascending"),
                ("sc_dropseq", slice(300, 1700), "descending"),
                ("sc_celseq2_5cl_p1", slice(900, 2900), "shuffled"),
            ]
        ):
            _mix(into / f"derived_mix_{name}.h5ad", genes, order, seed)
    return folder


def counts(seed: int, n_cells: int, n_genes: int, n_found: int) -> scipy.sparse.csr_matrix:
    """Counts of cells that hold about `n_found` genes each; sorted indices, float32."""
    random = np.random.default_rng(seed)
    frequency = np.cumsum(random.lognormal(0, 2, n_genes))
    sizes = np.maximum(1, random.lognormal(np.log(n_found * 1.5), 0.3, n_cells)).astype(int)
    genes = np.searchsorted(frequency, random.random(sizes.sum()) * frequency[-1])
    cells = np.repeat(np.arange(n_cells), sizes)
    matrix = scipy.sparse.csr_matrix(
        (np.ones(len(genes), np.float32), (cells, genes)), shape=(n_cells, n_genes)
    )
    matrix.sum_duplicates()
    matrix.data = 1 + random.negative_binomial(0.2, 0.15, matrix.nnz).astype(np.float32)
    return matrix


def with_order(matrix: scipy.sparse.csr_matrix, order: str) -> scipy.sparse.csr_matrix:
    """The same rows with indices that are ascending, descending or shuffled."""
    random, made = np.random.default_rng(0), matrix.copy()
    for begin, end in zip(matrix.indptr, matrix.indptr[1:], strict=False):
        row = np.arange(begin, end)
        if order != "ascending":
            row = row[::-1] if order == "descending" else random.permutation(row)
        made.indices[begin:end], made.data[begin:end] = matrix.indices[row], matrix.data[row]
    made.has_sorted_indices = order == "ascending"
    return made


def labels(random, names, n_cells, p=None) -> pd.Categorical:
    return pd.Categorical(random.choice(names, n_cells, p=p), categories=names)


def cell_names(n_cells: int, prefix: str) -> list[str]:
    return [f"{prefix}-{(row * 2654435761) % 2**32:08X}-{row}" for row in range(n_cells)]


def gene_table(names) -> pd.DataFrame:
    return pd.DataFrame(index=list(names))


def write(path, x, obs, var, compression=None, **more) -> None:
    anndata.AnnData(x, obs=obs, var=var, **more).write_h5ad(path, compression=compression)


def _wide(into):
    x, random = counts(1, 1020, 18708, 1100), np.random.default_rng(1)
    x.data[[7, -9]] = 40238, 1
    types = sorted(f"Cell type {k} (gut)" for k in range(68))
    obs = pd.DataFrame(
        {
            "Celltype": labels(random, types, 1020, random.dirichlet(np.full(68, 0.7))),
            "donor_id": labels(random, sorted(f"N{k}" for k in range(69)), 1020),
            "n_counts": x.sum(axis=1).A1.astype(np.int64),
            "batch": labels(random, [f"TI_{k}.scp" for k in "ABCDEF"], 1020),
        },
        index=cell_names(1020, "N13_LP_A"),
    )
    write(
        into / "scp1884.h5ad", x, obs, gene_table(f"G{k}-AS{k % 3}" for k in range(18708)), "gzip"
    )


def _few(into):
    x, random = counts(2, 165, 9621, 580), np.random.default_rng(2)
    x = scipy.sparse.vstack([x[:20], scipy.sparse.csr_matrix((1, 9621), dtype=x.dtype), x[21:]])
    types = [*sorted(f"CD{k}+ T Helper" for k in range(9)), "Dendritic", "only one cell"]
    kinds = labels(random, types[:-1], 165).set_categories(types)
    kinds[100] = "only one cell"
    terms = pd.Categorical([f"CL:{code:07d}" for code in kinds.codes])
    obs = pd.DataFrame(
        {"celltype": kinds, "cell_type_ontology_term_id": terms}, index=cell_names(165, "PBMC")
    )
    var = gene_table(f"GENE{k}" for k in range(9621))
    write(into / "zheng68k_165.h5ad", x.tocsr(), obs, var, "gzip")


def _perturbed(into):
    x, random = counts(3, 2247, 2000, 150), np.random.default_rng(3)
    x.data = (np.log1p(x.data) * random.random(x.nnz)).astype(np.float32) + np.float32(1e-3)
    x.data[::5000] = 1.00174e-07
    twice = x.indptr[1:-1][np.diff(x.indptr[1:]) > 1]  # the second entry of a row is its first
    x.indices[twice + 1] = x.indices[twice]
    x.has_canonical_format = False
    drugs = [f"drug {k}" for k in range(188)]
    obs = pd.DataFrame(
        {
            "cell_type": labels(random, ["A549", "K562", "MCF7"], 2247),
            "product_name": labels(random, drugs, 2247),
            "cov_drug_dose_name": pd.Categorical([f"dose of cell {row}" for row in range(2247)]),
            "split_random": labels(random, ["ood", "test", "train"], 2247),
            "control": random.integers(2, size=2247),
            "dose": random.choice([10.0, 100.0, 1e4], 2247),
            "n_counts": x.sum(axis=1).A1.astype(np.float32),
        },
        index=cell_names(2247, "A01"),
    )
    path = into / "sciplex3.h5ad"
    write(path, x, obs, gene_table(f"ENSG{k:011d}" for k in range(2000)), "gzip")


def _normalised(into):
    x, random = counts(4, 2237, 2000, 128), np.random.default_rng(4)
    x.data = np.log1p(x.data).astype(np.float32)
    x.data[::97] = 0  # stored all the same
    clusters = pd.Categorical.from_codes(
        np.where(random.random(2237) < 0.1, -1, random.integers(12, size=2237)),
        categories=np.arange(12) * 7 - 7,
    )
    types = sorted(f"neuron {k}" for k in range(11))
    obs = pd.DataFrame(
        {
            "donor_id": labels(random, ["XDD420"], 2237),
            "cell_type": labels(random, types, 2237),
            "cell_type_id": random.integers(11, size=2237).astype(np.int8),
            "cluster_id": clusters,
            "is_primary_data": random.random(2237) < 0.5,
            "fraction_unspliced": np.where(random.random(2237) < 0.1, np.nan, 0.567392),
            "observation_joinid": [f"~{row * 7919 % 2237:x}é" for row in range(2237)],
        },
        index=pd.Index(cell_names(2237, "10X353_7"), name="CellID"),
    )
    var = gene_table(f"ENSG{k:011d}" for k in range(2000))
    var.index.name = "Accession"
    var["feature_name"] = pd.Categorical([f"NAME{k - k % 50 // 49}" for k in range(2000)])
    var["feature_length"] = pd.Categorical(np.arange(2000) % 1372)
    var["means"] = x.mean(axis=0).A1.astype(np.float64)
    write(into / "telencephalon_val.h5ad", x, obs, var)


def _mix(path, genes, order, seed):
    names = np.random.default_rng(9).permutation([f"GENE-{k}" for k in range(2900)])[genes]
    names = np.random.default_rng(seed).permutation(names)
    n_cells, random = (274, 225, 297)[seed], np.random.default_rng(20 + seed)
    x = with_order(counts(20 + seed, n_cells, len(names), 500), order)
    lines = sorted(LINES[:3] if seed < 2 else LINES)
    cell_type = labels(random, lines, n_cells)
    obs = pd.DataFrame(
        {
            "unaligned": random.integers(10**6, size=n_cells),
            "number_of_genes": np.diff(x.indptr).astype(np.int64),
            "total_count_per_cell": x.sum(axis=1).A1.astype(np.int64),
            "non_mt_percent": random.random(n_cells) * 100,
            "outliers": random.random(n_cells) < 0.1,
            "cell_line_demuxlet": cell_type,
            "demuxlet_cls": labels(random, ["DBL", "SNG"], n_cells),
            "cell_type": cell_type,
            "protocol": labels(random, [path.stem.removeprefix("derived_mix_")], n_cells),
        },
        index=cell_names(n_cells, "CELL"),
    )
    obs["cell_line" if seed < 2 else "batch"] = labels(random, lines[:3], n_cells)
    if seed != 1:
        obs["non_ERCC_percent"] = random.random(n_cells)
    write(path, x, obs, gene_table(names), "gzip")


def _layers(into):
    spliced = counts(5, 100, 3000, 600)
    layers = {"spliced": spliced}
    for seed, name in enumerate(["ambiguous", "unspliced"]):
        layers[name] = counts(50 + seed, 100, 3000, 250 - 150 * seed)
    obs, var = (pd.DataFrame(index=pd.Index(cell_names(n, "D"), name="index")) for n in (100, 3000))
    path = into / "dentategyrus_100obs_layers.h5ad"
    write(path, spliced, obs, var, layers=layers)
    with h5py.File(path, "r+") as file:
        for name in set(file) - {"X", "layers", "obs", "var"}:
            del file[name]
        for name in list(file.attrs):
            del file.attrs[name]
        for name in ("obs", "var"):
            file[name].attrs["encoding-version"] = "0.1.0"


def _placenta(into):
    x = counts(6, 900, 6000, 370).astype(np.int32)
    random = np.random.default_rng(6)
    obs = pd.DataFrame(
        {
            "in_tissue": random.integers(2, size=900),
            "array_row": np.arange(900) // 30,
            "n_genes": np.diff(x.indptr).astype(np.int32),
            "total_counts": x.sum(axis=1).A1.astype(np.int64),
        },
        index=cell_names(900, "AAAC"),
    )
    symbols = [f"SYMBOL{k - (k == 11)}" for k in range(6000)]  # one name twice; int16 codes
    var = gene_table(f"ENSG{k:011d}" for k in range(6000))
    var["gene_symbols"] = pd.Categorical(symbols)
    path = into / "derived_placenta_visium_csr.h5ad"
    write(path, x, obs, var, "gzip")
    with h5py.File(path, "r+") as file:
        for name in ("data", "indices"):
            values = file["X"][name][:]
            del file["X"][name]
            file["X"].create_dataset(name, data=values, chunks=(8356,), compression="lzf")
    write(into / "derived_placenta_visium_csc.h5ad", x.tocsc(), obs, var, "gzip")


def _small(into):
    random = np.random.default_rng(7)
    dense = random.normal(0, 1.3, size=(80, 20))
    obs = pd.DataFrame(
        {
            "nCount_RNA": random.random(80) * 300,
            "nFeature_RNA": random.integers(20, 90, size=80).astype(np.int32),
            "letter.idents": random.integers(2, size=80).astype(np.int32),
            "groups": labels(random, ["g1", "g2"], 80),
            "RNA_snn_res.0.8": random.integers(2, size=80).astype(np.int32),
        },
        index=cell_names(80, "ATGC"),
    )
    var = gene_table(f"HLA-{k}" for k in range(20))
    var["vst.mean"] = dense.mean(axis=0)
    forms = {"csr": scipy.sparse.csr_matrix, "csc": scipy.sparse.csc_matrix, "dense": np.asarray}
    for name, form in forms.items():
        write(into / f"pbmc-small-x-{name}.h5ad", form(dense), obs, var)
    protein = counts(8, 60, 700, 65).toarray()
    path = into / "pbmc_10k_protein_v3_dense_lzf.h5ad"
    obs = pd.DataFrame(index=cell_names(60, "P"))
    write(path, protein, obs, gene_table(f"P{k}" for k in range(700)))
    with h5py.File(path, "r+") as file:
        del file["X"]
        file.create_dataset("X", data=protein, chunks=(7, 46), compression="lzf")


def _raw(into):
    raw = counts(9, 700, 1100, 250)
    raw.data = np.log1p(raw.data).astype(np.float32)
    raw, random = with_order(raw, "shuffled"), np.random.default_rng(9)
    obs = pd.DataFrame(
        {
            "bulk_labels": labels(random, sorted(f"CD{k}+" for k in range(10)), 700),
            "n_genes": np.diff(raw.indptr).astype(np.int64),
            "percent_mito": random.random(700).astype(np.float32),
            "phase": labels(random, ["G1", "G2M", "S"], 700),
            "louvain": labels(random, [str(k) for k in range(11)], 700),
        },
        index=pd.Index(cell_names(700, "AAAG"), name="index"),
    )
    genes = pd.Index([f"RAW{k}" for k in range(1100)], name="index")
    var = pd.DataFrame({"n_counts": raw.sum(axis=0).A1}, index=genes)
    adata = anndata.AnnData(raw, obs=obs, var=var)
    adata.raw = adata.copy()
    adata = adata[:, 300:1065].copy()
    adata.X = random.normal(0, 1, adata.shape).astype(np.float32)
    adata.write_h5ad(into / "pbmc68k_reduced_v08.h5ad", compression="gzip")


def _all_kinds(into):
    x, random = counts(10, 50, 100, 80), np.random.default_rng(10)
    integers = np.arange(50)
    obs = pd.DataFrame(
        {
            "Float": np.full(50, 42.42),
            "FloatNA": np.where(integers == 0, np.nan, 42.42),
            "Int": integers,
            "IntNA": pd.array([None, *integers[1:]], dtype="Int64"),
            "Bool": pd.array(integers % 2 == 0, dtype="boolean"),
            "BoolNA": pd.array([None, *(integers[1:] % 3 == 0)], dtype="boolean"),
            "total_counts": x.sum(axis=1).A1,
            "leiden": labels(random, [str(k) for k in range(6)], 50),
        },
        index=[f"Cell{k:03d}" for k in range(50)],
    )
    var = gene_table(f"Gene{k:03d}" for k in range(100))
    var["String"] = [f"String {k}" for k in range(100)]
    layers = {
        "counts": x,
        "csc_counts": x.tocsc(),
        "dense_counts": x.toarray().astype(np.int64),
    }
    logged = x.copy()
    logged.data = np.log1p(logged.data)
    path = into / "anndataR_example_all_kinds.h5ad"
    write(path, logged, obs, var, "gzip", layers=layers)


def _anndata06(into):
    """Compound tables and ``h5sparse_*`` attributes, as anndata wrote until 0.6."""
    x = with_order(counts(11, 120, 300, 60), "shuffled")
    with h5py.File(into / "kang_ifnb_valid_anndata06.h5ad", "w") as file:
        group = file.create_group("X")
        group.attrs["h5sparse_format"], group.attrs["h5sparse_shape"] = "csr", x.shape
        for name in ("data", "indices", "indptr"):
            group.create_dataset(name, data=getattr(x, name), compression="gzip")
        obs = np.zeros(120, dtype=[("index", "S27"), ("condition", "i1"), ("n_counts", "<f4")])
        obs["index"] = [name.encode() for name in cell_names(120, "K")]
        obs["condition"] = np.arange(120) % 2
        var = np.zeros(300, dtype=[("index", "S18"), ("n_cells", "<i8")])
        var["index"] = [f"GENE{k}".encode() for k in range(300)]
        file["obs"], file["var"] = obs, var
        texts = np.array([b"control", b"stimulated"], dtype=object)
        file.create_dataset("uns/condition_categories", data=texts, dtype=h5py.string_dtype())
