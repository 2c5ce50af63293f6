"""Columns that a file has in types of other languages, or of none that is readable."""

import anndata
import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
import zarr
from program import run

import cellfeed as cf

N = 12


def add_column(file, group, name, values, dtype=None, **attributes):
    made = file[group].create_dataset(name, data=values, dtype=dtype)
    for key, value in {"encoding-type": "array", "encoding-version": "0.2.0"}.items():
        made.attrs[key] = attributes.get(key, value)
    file[group].attrs["column-order"] = [*file[group].attrs["column-order"], name]


@pytest.fixture
def adata():
    x = scipy.sparse.random(N, 5, 0.5, "csr", random_state=0, dtype=np.float32)
    return anndata.AnnData(
        x, obs=pd.DataFrame({"n": np.arange(N), "kind": pd.Categorical(list("abc") * 4)},
                            index=[f"c{i}" for i in range(N)]),
        var=pd.DataFrame({"length": np.arange(5)}, index=[f"g{i}" for i in range(5)]),
    )  # fmt: skip


# As hdf5r and rhdf5 write logicals.
LOGICALS = {
    "hdf5r": {"FALSE": 0, "TRUE": 1, "NA": 2},
    "rhdf5": {"TRUE": 1, "FALSE": 0, "NA": 255},
    "no missing": {"TRUE": 0, "FALSE": 1},
}


@pytest.mark.parametrize("writer", LOGICALS)
def test_logicals_of_r_are_true_false_or_missing(tmp_path, adata, writer):
    codes = LOGICALS[writer]
    path = tmp_path / "a.h5ad"
    adata.write_h5ad(path)
    words = (list(codes) * N)[:N]
    values = np.array([codes[word] for word in words], "u1")
    with h5py.File(path, "a") as file:
        add_column(file, "obs", "flag", values, h5py.enum_dtype(codes, "u1"))
    wanted = [{"TRUE": True, "FALSE": False, "NA": None}[word] for word in words]
    cells = cf.open(path)
    assert pa.table(cells.obs_table())["flag"].to_pylist() == wanted
    np.testing.assert_array_equal(cells.obs["flag"].to_numpy(float), np.array(wanted, float))
    assert len(cells.filter("flag")) == sum(value is True for value in wanted)
    cf.convert_to_shards(cells, tmp_path / "shards")
    cf.export_h5ad(tmp_path / "shards", tmp_path / "out.h5ad")
    written = anndata.read_h5ad(tmp_path / "out.h5ad").obs["flag"]
    assert [None if pd.isna(value) else value for value in written] == wanted
    with h5py.File(path, "a") as file:
        del file["obs/flag"]
        file["obs"].create_dataset("flag", data=values | 4, dtype=h5py.enum_dtype(codes, "u1"))
    with pytest.raises(cf.errors.CorruptDataError, match="neither true nor false: 'obs/flag'"):
        cf.open(path).obs["flag"]


def unreadable(tmp_path, adata):
    path = tmp_path / "a.h5ad"
    adata.write_h5ad(path)
    with h5py.File(path, "a") as file:
        add_column(file, "obs", "wave", np.arange(N) * 1j)
        add_column(file, "obs", "pairs", np.zeros((N, 2)))
        add_column(file, "var", "wave", np.arange(5) * 1j)
        group = file["obs"].create_group("odd")
        group.attrs["encoding-type"] = "of-tomorrow"
        file["obs"].attrs["column-order"] = [*file["obs"].attrs["column-order"], "odd"]
    return path


def test_columns_that_are_not_readable_are_left_out_and_named(tmp_path, adata):
    path = unreadable(tmp_path, adata)
    said = r"cannot be read are left out: obs/wave, obs/pairs, obs/odd \(.*'obs/wave' is of type"
    of_var = r"left out: var/wave \(.*a.h5ad"
    cells = cf.open(path, obs=["kind"])
    with pytest.warns(cf.errors.LeftOutWarning, match=said):
        obs = cells.obs.df
    pd.testing.assert_frame_equal(obs, adata.obs, check_index_type=False, check_column_type=False)
    with pytest.warns(cf.errors.LeftOutWarning, match=of_var):
        assert list(cells.var.columns) == ["length"]
    assert cells.obs["n"].tolist() == list(range(N))
    for name, why in {"wave": "type", "pairs": "one dimension", "odd": "of-tomorrow"}.items():
        with pytest.raises(
            cf.errors.UnsupportedError, match=f"{why}.*'obs/{name}'|'obs/{name}' .*{why}"
        ):
            cells.obs[name]
    with pytest.raises(cf.errors.UnsupportedError, match="'obs/wave'"):
        cf.Loader(cells, cf.Streaming(), batch_size=4, obs=["wave"])
    with pytest.warns(cf.errors.LeftOutWarning, match=f"(?s){said}.*{of_var}"):
        cf.convert_to_shards(path, tmp_path / "shards")
    with pytest.warns(cf.errors.LeftOutWarning, match=f"(?s){said}.*{of_var}"):
        cf.export_h5ad(cells, tmp_path / "out.h5ad")
    for made in (cf.open(tmp_path / "shards"), cf.open(tmp_path / "out.h5ad")):
        assert made.obs.df[["n", "kind"]].equals(obs)
        assert "wave" not in made.obs_keys() and list(made.var.columns) == ["length"]
    assert "obs/wave, obs/pairs" in run("info", path)


def test_damage_of_a_column_is_no_reason_to_leave_it_out(tmp_path, adata):
    path = tmp_path / "a.h5ad"
    adata.write_h5ad(path)
    with h5py.File(path, "a") as file:
        del file["obs/n"]
    with pytest.raises(cf.errors.CorruptDataError, match="'obs/n'"):
        cf.open(path).obs.df  # noqa: B018


@pytest.mark.parametrize("fields", [[("index", "S18")], None])
def test_tables_of_records_in_zarr(tmp_path, adata, fields):
    """As early versions of anndata and of Cell Ranger's conversions wrote obs and var."""

    def records(frame):
        names = frame.index.to_numpy().astype("S18")
        dtype = fields or [("index", "S18"), ("n", "<i4"), ("share", ">f8"), ("code", "|i1")]
        table = np.zeros(len(frame), dtype)
        table["index"] = names
        if fields is None:
            table["n"], table["share"] = np.arange(len(frame)), np.arange(len(frame)) / 7
            table["code"] = np.arange(len(frame)) % 3
        return table

    obs, var = records(adata.obs), records(adata.var)
    root = zarr.open_group(str(tmp_path / "a.zarr"), mode="w", zarr_format=2)
    x = adata.X.toarray()
    for name, values in {"X": x, "obs": obs, "var": var}.items():
        root.create_array(name, shape=values.shape, chunks=(5,) * values.ndim, dtype=values.dtype)[
            ...
        ] = values
    if fields is None:
        root.create_group("uns").create_array(
            "code_categories", shape=(3,), dtype="S1"
        )[...] = np.array(["a", "b", "c"], "S1")  # fmt: skip
    cells = cf.open(tmp_path / "a.zarr")
    assert list(cells.obs_names) == list(adata.obs_names)
    assert list(cells.var_names) == list(adata.var_names)
    np.testing.assert_array_equal(cells.read(slice(None)).x.toarray(), x)
    if fields is None:
        np.testing.assert_array_equal(cells.obs["n"], obs["n"])
        np.testing.assert_array_equal(cells.obs["share"], obs["share"])
        assert cells.obs["code"].tolist() == [["a", "b", "c"][code] for code in obs["code"]]
        assert pa.table(cells.obs_table(0, 3, 9))["n"].to_pylist() == obs["n"][3:9].tolist()
    cf.convert_to_shards(cells, tmp_path / "shards")
    assert list(cf.open(tmp_path / "shards").obs_names) == list(adata.obs_names)
