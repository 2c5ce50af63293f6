"""Every Python block of the two pages on distributed training runs as printed.

Only these things are changed or filled in:

- the package name: ``scdataset`` is ``cellfeed``;
- placeholders: ``load_adata()``, ``my_fetch_fn``, ``YourModel``, ``compute_sample_weights``,
``train_step``,
  ``strategy``, ``num_epochs``, a file ``large_dataset.h5ad``, and ``...`` for the arguments left
  out;
- the machine has no GPU: ``nccl`` is ``gloo``, ``cuda`` does nothing, a device number is the CPU;
- the second page lost its indentation: it is given here.

The pages lie beside the repository; CELLFEED_TEST_SEEDS names another folder.
"""

import os
import textwrap
from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader

import cellfeed as cf

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
SEEDS = Path(os.environ.get("CELLFEED_TEST_SEEDS", Path(__file__).parents[3] / "shared" / "seeds"))
N, GENES = 1200, 160

# First and last line of each block of the second page, and where the depth of its lines changes.
BLOCKS = {
    (21, 64): {28: 1, 33: 0, 34: 1, 58: 2, 59: 3, 62: 1, 63: 0, 64: 1},
    (67, 76): {},
    (84, 89): {},
    (97, 101): {99: 1, 100: 2},
    (103, 104): {},
    (118, 165): {128: 1, 154: 2, 155: 3, 162: 4, 163: 1, 164: 0, 165: 1},
    (182, 199): {},
    (222, 231): {},
    (247, 264): {263: 1},
    (272, 286): {},
    (301, 327): {321: 1, 323: 0, 325: 1},
}
# The whole training of each page: ten epochs, four workers in each.
SLOW = [(2, 175), (3, 118)]


def page(number):
    found = sorted(SEEDS.glob(f"{number:03d}_*.txt"))
    return found[0].read_text() if found else None


def marked_blocks(text):
    """Blocks below ``.. code-block:: python``, with the line each begins at."""
    lines = text.split("\n")
    for start, line in enumerate(lines):
        if line != ".. code-block:: python":
            continue
        end = start + 1
        while end < len(lines) and (not lines[end] or lines[end].startswith("    ")):
            end += 1
        yield start + 2, textwrap.dedent("\n".join(lines[start + 1 : end]))


def indented_blocks(text):
    lines = text.split("\n")
    for (first, last), depths in BLOCKS.items():
        depth, block = 0, []
        for number in range(first, last + 1):
            depth = depths.get(number, depth)
            block.append("    " * depth + lines[number - 1])
        yield first, "\n".join(block)


def all_blocks():
    for number, find, count in ((2, marked_blocks, 12), (3, indented_blocks, 11)):
        text = page(number)
        if text is None:
            yield pytest.param(None, None, id=f"{number:03d}", marks=pytest.mark.skip("no seeds"))
            continue
        blocks = list(find(text))
        assert len(blocks) == count
        for line, code in blocks:
            marks = [pytest.mark.slow] if (number, line) in SLOW else []
            yield pytest.param(line, code, id=f"{number:03d}-{line}", marks=marks)


class YourModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(GENES, 2)

    def forward(self, batch):
        return self.layer(batch)


@pytest.fixture
def placeholders():
    random = np.random.default_rng(0)
    kinds = random.choice(["B", "NK", "T"], size=N, p=[0.3, 0.1, 0.6])
    adata = anndata.AnnData(
        scipy.sparse.random(N, GENES, density=0.2, format="csr", dtype=np.float32, random_state=0),
        obs=pd.DataFrame({"cell_type": pd.Categorical(kinds)}, index=[f"c{i}" for i in range(N)]),
        var=pd.DataFrame(index=[f"g{i}" for i in range(GENES)]),
    )
    adata.obs["ct"] = adata.obs["cell_type"]
    adata.write_h5ad("large_dataset.h5ad")

    def my_fetch_fn(collection, indices):
        return collection[indices].X.toarray()

    def compute_sample_weights(labels):
        counts = labels.value_counts()
        return np.array([1 / counts[label] for label in labels])

    dataset = cf.scDataset(adata, cf.BlockShuffling(64), 128, fetch_callback=my_fetch_fn)
    return {
        "__name__": "__main__", "adata": adata, "load_adata": lambda: adata, "num_epochs": 2,
        "my_fetch_fn": my_fetch_fn, "compute_sample_weights": compute_sample_weights,
        "YourModel": YourModel, "train_step": lambda batch: batch.sum(), "DataLoader": DataLoader,
        "loader": DataLoader(dataset, batch_size=None), "strategy": cf.BlockShuffling(64),
        "data": random.random((N, 2000), dtype=np.float32),
        "w": np.ones(N), "l": kinds, "scDataset": cf.scDataset, "Streaming": cf.Streaming,
        "BlockShuffling": cf.BlockShuffling, "BlockWeightedSampling": cf.BlockWeightedSampling,
        "ClassBalancedSampling": cf.ClassBalancedSampling, "dist": dist,
        "os": os, "torch": torch,
    }  # fmt: skip


def on_cpu(method):
    """``.to(0)`` without a GPU."""

    def to(self, *args, **kwargs):
        return self if args and type(args[0]) is int else method(self, *args, **kwargs)

    return to


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """One rank of torchrun on a machine without a GPU."""
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    init = dist.init_process_group
    monkeypatch.setattr(dist, "init_process_group", lambda backend: init(
        "gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1))  # fmt: skip
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    for kind in (torch.Tensor, nn.Module):
        monkeypatch.setattr(kind, "to", on_cpu(kind.to))
        monkeypatch.setattr(kind, "cuda", lambda self: self)
    ddp = nn.parallel.DistributedDataParallel
    monkeypatch.setattr(
        nn.parallel, "DistributedDataParallel", lambda module, device_ids: ddp(module)
    )
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def fill_in(code):
    code = code.replace("from scdataset", "from cellfeed")
    return code.replace(", ...)", ", batch_size=64)")


@pytest.mark.parametrize(("line", "code"), list(all_blocks()))
def test_block_runs_as_printed(line, code, machine, placeholders, capsys):
    names = placeholders
    assert "scdataset" not in fill_in(code)
    exec(compile("\n" * line + fill_in(code), "seed", "exec"), names)
    assert capsys.readouterr().err == ""
    if "dist.init_process_group" in code and "def " not in code:
        assert (names["dataset"].rank, names["dataset"].world_size) == (0, 1)
    made = [value for name, value in names.items() if name.startswith("dataset")]
    for dataset in made:  # what a block makes and does not read itself
        assert len(next(iter(dataset))) == dataset.batch_size
    if "world_size=4" in code and made:
        assert (made[0].rank, made[0].world_size) == (2, 4)
