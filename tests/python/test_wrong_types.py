"""Every argument of every public function, given values of wrong types: the errors are ours."""

import inspect
import math
import shutil

import numpy as np
import pytest
from small_atlas import make_anndata, write_atlas

import cellfeed as cf
from cellfeed import data, errors, transforms
from cellfeed.data.dataset import CellDataset, ShardedCellDataset
from cellfeed.data.distributed import DistributedShardSampler
from cellfeed.data.memmap_store import MemoryMappedStore
from cellfeed.data.vocab import GeneVocab

WRONG = [
    None, True, -1, 0, 3, 2**63, 2**200, 1.5, math.nan, math.inf, "x", "", "a\0b", "\ud800",
    b"x", object(), [], ["x", 3], [[1], [2, 3]], {}, {"a": 1}, {1, 2}, np.zeros((2, 2)),
    np.array(["a"], dtype=object), slice("a", "b"), range(3), int, len, cf.Log1p, cf.Streaming(),
]  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wrong")
    write_atlas(folder)
    cf.convert_to_shards(folder / "atlas_0.h5ad", folder / "shards")
    return folder


def calls(place):
    """Name -> function and arguments it works with; arguments that are not named have defaults."""
    atlas, shards, new = place / "atlas_0.h5ad", place / "shards", place / "new"
    cells = cf.open(atlas, obs=["cell_type", "depth"])
    loader = cf.Loader(cells, cf.Streaming(), 16)
    batch = next(iter(loader))
    labels = ["a", "b", "a"] * 20
    vocab = GeneVocab.from_genes(["gene1", "gene2"])
    store = MemoryMappedStore(shards)
    made = cf.MultiIndexable(X=np.ones((60, 2)), y=np.arange(60))

    def bound(kind, collection=cells):
        def make_and_bind(**arguments):
            return kind(**arguments).bind(collection)

        make_and_bind.__signature__ = inspect.signature(kind)
        return make_and_bind

    yield "open", cf.open, {"paths": atlas}
    yield "open(AnnData)", cf.open, {"paths": make_anndata()}
    yield "Loader", cf.Loader, {"cells": cells, "strategy": cf.Streaming(), "batch_size": 8}
    yield "scDataset", cf.scDataset, {
        "data_collection": cells, "strategy": cf.Streaming(), "batch_size": 8,
    }  # fmt: skip
    yield "scDataset(numpy)", cf.scDataset, {
        "data_collection": np.ones((9, 2)), "strategy": cf.Streaming(), "batch_size": 8,
    }  # fmt: skip
    yield "Streaming", bound(cf.Streaming), {}
    yield "BlockShuffling", bound(cf.BlockShuffling), {}
    yield "BlockWeightedSampling", bound(cf.BlockWeightedSampling), {}
    yield "ClassBalancedSampling", bound(cf.ClassBalancedSampling), {"label_key": "cell_type"}
    yield "ClassBalancedSampling(labels)", bound(cf.ClassBalancedSampling), {"labels": labels}
    yield "GroupSampling", bound(cf.GroupSampling), {"label_key": "donor"}
    yield "WeightedCellSampler", bound(cf.WeightedCellSampler), {"labels": labels}
    yield "NormalizeTotal", cf.NormalizeTotal, {}
    yield "Log1p", cf.Log1p, {}
    yield "SelectGenes", cf.SelectGenes, {"genes": ["gene1"]}
    yield "convert_to_shards", cf.convert_to_shards, {"cells": atlas, "output_dir": new}
    yield "validate_shard_dir", data.validate_shard_dir, {"shard_dir": shards}
    yield "export_h5ad", cf.export_h5ad, {"cells": shards, "output": new / "o.h5ad"}
    yield "simulate", cf.simulate, {"cells": atlas, "n_cells": 5, "output": new / "o.h5ad"}
    yield "info", cf.info, {"path": atlas}
    yield "adata_to_mindex", transforms.adata_to_mindex, {"batch": make_anndata()}
    yield "fetch_transform_adata", transforms.fetch_transform_adata, {"batch": make_anndata()}
    yield "GeneVocab", GeneVocab, {"gene_to_id": {"gene1": 4}}
    yield "GeneVocab.from_genes", GeneVocab.from_genes, {"genes": ["gene1"]}
    yield "GeneVocab.from_adata", GeneVocab.from_adata, {"adata": atlas, "n_genes": 3}
    yield "GeneVocab.from_file", GeneVocab.from_file, {"path": place / "vocab.json"}
    yield "GeneVocab.save", vocab.save, {"path": place / "vocab.json"}
    yield "GeneVocab.encode", vocab.encode, {"genes": ["gene1"]}
    yield "GeneVocab.decode", vocab.decode, {"ids": [4]}
    yield "CellDataset", CellDataset, {"adata": atlas}
    yield "CellDataset[]", CellDataset(atlas).__getitem__, {"row": 0}
    yield "CellDataset.labels", CellDataset(atlas).labels, {"label_key": "donor"}
    yield "MemoryMappedStore", MemoryMappedStore, {"shard_dir": shards}
    yield "MemoryMappedStore.get_cell", store.get_cell, {"row": 0}
    yield "MemoryMappedStore.get_cells", store.get_cells, {"rows": [0]}
    yield "ShardedCellDataset", ShardedCellDataset, {"store": shards}
    yield "DistributedShardSampler", DistributedShardSampler, {"dataset": store}
    yield "GeneSelectionCollator", data.GeneSelectionCollator, {}
    yield "MultiIndexable[]", made.__getitem__, {"key": "X"}
    yield "cells[]", cells.__getitem__, {"index": [0]}
    yield "cells[:, ]", lambda genes: cells[:, genes], {"genes": [0]}
    yield "cells.iterate_axis", cells.iterate_axis, {"batch_size": 9}
    yield "cells.gene_aliases", cells.gene_aliases, {"column": "symbol"}
    yield "view[]", cells[:9].__getitem__, {"index": [0]}
    yield "view.to_anndata", cells[:9].to_anndata, {}
    yield "view.obs[]", cells[:9].obs.__getitem__, {"key": "depth"}
    yield "cells.read", cells.read, {"rows": [0]}
    yield "cells.obs_values", cells.obs_values, {"name": "depth"}
    yield "cells.obs_column", cells.obs_column, {"name": "depth"}
    yield "cells.obs_table", cells.obs_table, {}
    yield "cells.var_table", cells.var_table, {}
    yield "cells.categories", cells.categories, {"name": "cell_type"}
    yield "loader.plan", lambda epoch=None: list(loader.plan(epoch)), {}
    yield "loader.set_epoch", loader.set_epoch, {"epoch": 0}
    yield "loader.load_state_dict", loader.load_state_dict, {"state_dict": loader.state_dict()}
    yield "batch[]", batch.__getitem__, {"rows": [0]}
    yield "batch.obs[]", batch.obs.__getitem__, {"name": "depth"}
    yield "batch.obs.labels", batch.obs.labels, {"name": "cell_type"}
    yield "batch.obs.categories", batch.obs.categories, {"name": "cell_type"}


def parameters_of(function) -> list[str]:
    variadic = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    found = inspect.signature(function).parameters
    return [name for name, parameter in found.items() if parameter.kind not in variadic]


def names_of_calls() -> list[str]:
    source = inspect.getsource(calls)
    return [line.split('"')[1] for line in source.splitlines() if line.strip().startswith("yield")]


@pytest.mark.parametrize("name", names_of_calls())
@pytest.mark.filterwarnings("ignore")
def test_errors_are_ours_and_one_line(place, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    function, good = next(call[1:] for call in calls(place) if call[0] == name)
    foreign = []
    for parameter in parameters_of(function):
        for value in WRONG:
            if callable(value) and parameter == "progress":
                continue  # what a function of the user's raises is the user's
            shutil.rmtree(place / "new", ignore_errors=True)
            if name in ("export_h5ad", "simulate"):
                (place / "new").mkdir()
            try:
                function(**{**good, parameter: value})
            except errors.InternalError as error:
                foreign.append((parameter, value, error))
            except errors.CellfeedError as error:
                text = str(error)
                if "\n" in text or "incompatible function" in text or len(text) > 600:
                    foreign.append((parameter, value, error))
            except Exception as error:
                foreign.append((parameter, value, f"{type(error).__name__}: {error}"))
    shown = "\n".join(f"{p}={v!r:.60}: {str(e)[:160]}" for p, v, e in foreign)
    assert not foreign, f"{len(foreign)} of them:\n{shown}"
