"""The figures of the array-loader benchmark that users know (seed 001), each as a sweep of
tasks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from modes import OPEN_EACH_EPOCH, blocks, gzip, packed, plain
from task import Task


@dataclass(frozen=True)
class Figure:
    """One plot: a value of each task, in groups of bars or as lines over ``xs``."""

    name: str
    title: str
    value: str  # "rate", "stall_share", "bytes_per_cell"
    series: dict[str, list[Task]]
    xs: list[str] = field(default_factory=list)  # what each task of a series stands for
    is_line: bool = False


def _formats(output: str) -> Figure:
    """Local array loading, batches of 128: time a batch by format and access, as in its figure
    2a.
    """
    changes = {"batch_size": 128, "output": output}
    both = [{"access": "random"}, {"access": "stream"}]
    return Figure(
        f"local_arrays_{'sparse' if output == 'csr' else 'dense'}",
        f"Local array, batches of 128, {'CSR' if output == 'csr' else 'dense'} out",
        "rate",
        {
            "h5py, row by row": [Task("h5py_rows", **changes, **a) for a in both],
            "AnnCollection": [Task("ann_collection", **changes, **a) for a in both],
            "numpy memory map": [Task("memmap", data="memmap", **changes, **a) for a in both],
            "cellfeed .h5ad": [plain(**changes, **a) for a in both],
            "cellfeed packed": [packed(**changes, **a) for a in both],
        },
        ["true random", "sequential"],
    )


_BATCH_SIZES = [64, 256, 1024, 4096]
_ATLASES = {"20,000 cells": "small", "200,000 cells": "main", "large": "large"}

FIGURES = [
    _formats("csr"),
    _formats("dense"),
    Figure(
        "batch_size",
        "True random, by batch size",
        "rate",
        {
            "cellfeed packed": [packed(batch_size=b) for b in _BATCH_SIZES],
            "cellfeed .h5ad": [plain(batch_size=b) for b in _BATCH_SIZES],
            "AnnCollection": [Task("ann_collection", batch_size=b) for b in _BATCH_SIZES],
            "h5py rows": [Task("h5py_rows", batch_size=b) for b in _BATCH_SIZES],
        },
        [str(b) for b in _BATCH_SIZES],
        is_line=True,
    ),
    Figure(
        "workers",
        "True random, by threads (cellfeed) or worker processes (MappedCollection)",
        "rate",
        {
            "cellfeed packed": [packed(threads=n) for n in (1, 2)],
            "cellfeed .h5ad": [plain(threads=n) for n in (1, 2)],
            "MappedCollection": [
                Task("mapped_collection", output="dense", workers=n) for n in (1, 2)
            ],
        },
        ["1", "2"],
        is_line=True,
    ),
    Figure(
        "data_size",
        "Packed shards, by number of cells",
        "rate",
        {
            "true random": [packed(atlas=a) for a in _ATLASES.values()],
            "block 64": [packed(atlas=a, **blocks(64)) for a in _ATLASES.values()],
        },
        list(_ATLASES),
        is_line=True,
    ),
    Figure(
        "diversity",
        "Packed shards and gzip .h5ad, by block size",
        "rate",
        {
            "cellfeed packed": [packed(**blocks(b)) for b in (1, 16, 64, 256)],
            "cellfeed gzip .h5ad": [
                gzip(options=OPEN_EACH_EPOCH, **blocks(b)) for b in (1, 16, 64, 256)
            ],
        },
        ["1", "16", "64", "256"],
        is_line=True,
    ),
    Figure(
        "training",
        "Waiting for data in a training epoch of a small MLP on 2,048 genes",
        "stall_share",
        {
            "cellfeed packed": [packed(output="selected", is_training=True)],
            "cellfeed .h5ad": [plain(output="selected", is_training=True)],
            "AnnCollection": [Task("ann_collection", output="selected", is_training=True)],
            "MappedCollection, 2 workers": [
                Task("mapped_collection", output="selected", workers=2, is_training=True)
            ],
            "torch, in memory": [
                Task("torch_memory", data="memmap", output="selected", is_training=True)
            ],
        },
        ["training"],
    ),
]

# Storage by format: needs no run.
SIZES = {
    "plain .h5ad": "plain",
    "gzip .h5ad": "gzip",
    "raw CSR .npy": "memmap",
    "annbatch zarr": "annbatch",
    "cellfeed packed": "packed",
    "cellfeed packed, genes by mean": "packed_mean",
}
