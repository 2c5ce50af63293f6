"""Transforms of counts refuse values that are none, and name the counts: against scanpy."""

import anndata
import numpy as np
import pandas as pd
import pytest
import scanpy as sc
import scipy.sparse

import cellfeed as cf
from cellfeed.errors import InvalidArgumentError

pytestmark = pytest.mark.filterwarnings("ignore:Writing zarr v2")

NORMALIZED = [cf.NormalizeTotal(1e4), cf.Log1p()]
FORCED = [cf.NormalizeTotal(1e4, force=True), cf.Log1p(force=True)]


def counts_of(seed: int, n: int = 40) -> anndata.AnnData:
    random = np.random.default_rng(seed)
    x = scipy.sparse.csr_matrix(random.poisson(1.5, (n, 30)).astype(np.float32))
    obs = pd.DataFrame({"kind": pd.Categorical(["a", "b"] * (n // 2))})
    obs.index = [f"c{seed}-{i}" for i in range(n)]
    return anndata.AnnData(x, obs)


def as_atlases_have_it(seed: int) -> anndata.AnnData:
    """Logarithms in X without uns["log1p"], counts in raw and a layer."""
    adata = counts_of(seed)
    adata.raw = adata.copy()
    adata.layers["scaled"] = adata.X - 0.5 * (adata.X > 0)
    adata.layers["umis"] = adata.X.astype(np.int32)
    made = processed(adata)
    adata.X = made.X
    return adata


def processed(adata: anndata.AnnData, log: bool = True) -> anndata.AnnData:
    made = anndata.AnnData(adata.X.copy(), adata.obs)
    sc.pp.normalize_total(made, target_sum=1e4)
    if log:
        sc.pp.log1p(made)
    return made


def rows_of(data, transforms, **how) -> np.ndarray:
    with (
        cf.open(data, **how) as cells,
        cf.Loader(cells, cf.Streaming(), 16, transforms=transforms, output="dense") as loader,
    ):
        return np.vstack([batch.x for batch in loader])


def test_the_error_names_the_counts_and_they_give_what_scanpy_gives(tmp_path):
    adata = as_atlases_have_it(0)
    expected = processed(counts_of(0)).X.toarray()
    adata.write_h5ad(tmp_path / "a.h5ad")
    adata.write_zarr(tmp_path / "a.zarr")
    for path in (tmp_path / "a.h5ad", tmp_path / "a.zarr"):
        for transforms in (NORMALIZED, [cf.Log1p()]):
            with pytest.raises(InvalidArgumentError) as caught:
                rows_of(path, transforms)
            said = str(caught.value)
            assert f"{path}" in said and f"{transforms[0]!r}".split("(")[0] in said
            assert 'layer="raw/X" or layer="umis"' in said and "force=True" in said
        for layer in ("raw/X", "umis", ["counts", "raw/X", "X"]):
            np.testing.assert_allclose(rows_of(path, NORMALIZED, layer=layer), expected, rtol=1e-6)
    for data in (adata, cf.convert_to_shards(tmp_path / "a.h5ad", tmp_path / "shards")):
        with pytest.raises(InvalidArgumentError, match=r'expects counts.*layer="raw/X"'):
            rows_of(data, NORMALIZED)
    again = processed(adata).X.toarray()
    np.testing.assert_allclose(rows_of(tmp_path / "a.h5ad", FORCED), again, rtol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_every_reader_that_transforms_looks(tmp_path):
    from cellfeed.training import CellDataModule

    path = tmp_path / "a.h5ad"
    as_atlases_have_it(0).write_h5ad(path)
    module = CellDataModule(path, split={"train": 0.5, "val": 0.5}, transforms=NORMALIZED)
    module.setup()
    for read in (
        module.train_dataloader,
        lambda: cf.open(path).read([3], transforms=[cf.Log1p()]),
        lambda: cf.data.StreamingCellDataset([path], preprocessing=NORMALIZED),
        lambda: cf.data.CellDataset([path], preprocessing=[cf.Log1p()]),
    ):
        with pytest.raises(InvalidArgumentError, match='layer="raw/X"'):
            read()


@pytest.mark.parametrize(
    ("make", "transforms", "said"),
    [
        (lambda a: a.X, NORMALIZED, None),
        (lambda a: a.X.astype(np.int64), NORMALIZED, None),
        (lambda a: processed(a, log=False).X, [cf.Log1p()], None),
        (lambda a: processed(a, log=False).X, NORMALIZED, "NormalizeTotal expects counts"),
        (lambda a: processed(a).X, [cf.Log1p()], "Log1p expects counts"),
        (lambda a: sc.pp.scale(processed(a).X.toarray()), NORMALIZED, "scaled"),
        (lambda a: sc.pp.scale(processed(a).X.toarray()) / 10, [cf.Log1p()], "scaled"),
        (lambda a: processed(a).X, [cf.SelectGenes(["3", "5"])], None),
    ],
    ids=range(8),
)
def test_what_is_taken_for_counts(tmp_path, make, transforms, said):
    adata = counts_of(1)
    adata.X = make(adata)
    adata.write_h5ad(tmp_path / "a.h5ad")
    if said is not None:
        with pytest.raises(InvalidArgumentError, match=said):
            rows_of(tmp_path / "a.h5ad", transforms)
        return
    expected = anndata.AnnData(adata.X.astype(np.float32), adata.obs)
    if transforms is NORMALIZED:
        expected = processed(expected)
    elif len(transforms) == 1 and isinstance(transforms[0], cf.Log1p):
        sc.pp.log1p(expected)
    else:
        expected = expected[:, [3, 5]]
    found = rows_of(tmp_path / "a.h5ad", transforms)
    np.testing.assert_allclose(found, expected.X.toarray(), rtol=1e-5)


def test_a_cell_that_the_look_does_not_see_is_refused_when_it_comes(tmp_path):
    counts_of(0, 2000).write_h5ad(tmp_path / "0.h5ad")
    processed(counts_of(1, 2)).write_h5ad(tmp_path / "1.h5ad")
    stored = anndata.read_h5ad(tmp_path / "1.h5ad")
    del stored.uns["log1p"]
    stored.write_h5ad(tmp_path / "1.h5ad")
    counts_of(2, 2000).write_h5ad(tmp_path / "2.h5ad")
    said = r"1\.h5ad.*look normalised or log-transformed.*force=True"
    with pytest.raises(InvalidArgumentError, match=said):
        rows_of([tmp_path / f"{n}.h5ad" for n in range(3)], NORMALIZED)
