"""A small atlas with labels that can be learned, and runs on it: for the tests of training."""

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch

from cellfeed.training import train

CONFIG = {
    "data": {
        "paths": ["atlas.h5ad"],
        "preprocessing": {"normalize": True, "log_transform": True},
        "split": {"val": 0.25},
    },
    "model": {"architecture": "mlp", "d_model": 16, "n_layers": 2, "dropout": 0.1},
    "training": {
        "label_key": "kind",
        "batch_size": 16,
        "num_epochs": 3,
        "learning_rate": 0.01,
        "log_every_n_steps": 2,
        "checkpoint_every_n_steps": 3,
    },
}


def write_atlas(path, n_cells=240, n_genes=40, seed=0):
    """Counts of three kinds of cells, each with ten genes of its own; six donors."""
    random = np.random.default_rng(seed)
    kinds = random.integers(0, 3, n_cells)
    rates = np.full((n_cells, n_genes), 0.5)
    for kind in range(3):
        rates[kinds == kind, 10 * kind : 10 * kind + 10] = 2.0
    counts = scipy.sparse.csr_matrix(random.poisson(rates).astype(np.float32))
    obs = pd.DataFrame(
        {
            "kind": pd.Categorical.from_codes(kinds, ["B", "NK", "T"]),
            "donor": pd.Categorical([f"d{n}" for n in random.integers(0, 6, n_cells)]),
            "one": pd.Categorical(["same"] * n_cells),
            "age": random.integers(20, 80, n_cells),
        },
        index=[f"cell{n}" for n in range(n_cells)],
    )
    var = pd.DataFrame(index=[f"gene{n}" for n in range(n_genes)])
    adata = anndata.AnnData(counts, obs=obs, var=var)
    adata.write_h5ad(path)
    return adata


@contextlib.contextmanager
def trained_in(folder):
    """In that folder, an atlas and a run of one epoch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        torch.set_num_threads(1)
        write_atlas("atlas.h5ad")
        write_config(training={"num_epochs": 1})
        train("run.yaml", progress=False)
        yield folder


def merged(base, changes):
    """A nested dict with some of its values changed; None takes one out."""
    out = dict(base)
    for name, value in changes.items():
        if value is None:
            out.pop(name, None)
        else:
            out[name] = merged(base.get(name, {}), value) if isinstance(value, dict) else value
    return out


def write_config(path="run.yaml", **changes):
    """A configuration; JSON is YAML."""
    Path(path).write_text(json.dumps(merged(CONFIG, changes)))
    return path


def weights_of(checkpoint):
    return torch.load(checkpoint, weights_only=True)["state_dict"]


def torchrun(*arguments, n=2, more=(), check=True):
    """``torchrun`` of the program on this machine."""
    program = Path(sys.executable).with_name("cellfeed")
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={n}",
        *more, "--no-python", program, "train", *arguments,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert not check or done.returncode == 0, done.stderr[-3000:]
    return done
