"""What is compared with what, and the factor to reach: the tables as data."""

from __future__ import annotations

from dataclasses import dataclass

from task import Task


@dataclass(frozen=True)
class Check:
    """One line of a table: a figure of ours, alone or over the same figure of ``rival``."""

    title: str
    ours: Task
    goal: float | None
    rival: Task | None = None
    figure: str = "rate"  # or "first_batch_s", "resident_mb", "anonymous_mb", "bits_per_value"
    is_at_most: bool = False

    @property
    def tasks(self) -> list[Task]:
        return [self.ours, *([self.rival] if self.rival else [])]


def packed(**changes: object) -> Task:
    return Task("cellfeed", data="packed", **changes)


def plain(**changes: object) -> Task:
    return Task("cellfeed", data="plain", **changes)


def gzip(**changes: object) -> Task:
    return Task("cellfeed", data="gzip", **changes)


# Inflated, the 200,000 cells are 1.6 GB, which would stay in the budget after one epoch: files
# opened anew for each epoch start without inflated chunks, as those of a larger atlas would.
OPEN_EACH_EPOCH = (("is_opened_each_epoch", True),)


def blocks(size: int, fetch_factor: int = 16) -> dict:
    return {"access": "block", "block_size": size, "fetch_factor": fetch_factor}


DIRECT = (("opened_for", "direct"),)  # past the page cache

GZIP_64 = gzip(options=OPEN_EACH_EPOCH, **blocks(64, 64))
H5PY_DATASET = Task("h5py_dataset")
H5PY_ROWS = Task("h5py_rows")
H5PY_STREAM = Task("h5py_sequential", access="stream")
ANN_COLLECTION = Task("ann_collection")
ANN_COLLECTION_GZIP = Task("ann_collection", data="gzip")
MAPPED = Task("mapped_collection", output="dense")
MAPPED_2 = Task("mapped_collection", output="dense", workers=2)
OUR_MAPPED = Task("cellfeed_mapped", output="dense")
OUR_MAPPED_GZIP = Task("cellfeed_mapped", data="gzip", output="dense")
MAPPED_GZIP = Task("mapped_collection", data="gzip", output="dense")
MAPPED_SELECTED = Task("mapped_collection", output="selected", workers=2)
SCDATASET_64_GZIP = Task("scdataset", data="gzip", **blocks(64, 64))
ANNBATCH_1 = Task("annbatch", data="annbatch")
ANNBATCH_64 = Task("annbatch", data="annbatch", **blocks(64))
ANNBATCH_256 = Task("annbatch", data="annbatch", **blocks(256))
ANNBATCH_CONVERT = Task("annbatch", kind="convert", data="plain")
CONVERT = plain(kind="convert")
CONVERT_SHUFFLED = plain(kind="convert", options=(("is_shuffled", True),))
DEVICE_RANDOM = Task("device", kind="device", data="packed", atlas="large")
DEVICE_STREAM = Task("device", kind="device", data="packed", access="stream", atlas="large")

DEVICE_BLOCKS = Task("device", kind="device", data="packed", atlas="large", **blocks(256))

# Loading, converting, sizes and memory.
MAIN_JOB = [
    Check("packed, true random, CSR / h5py rows in a Dataset", packed(), 200, H5PY_DATASET),
    Check("packed, true random, CSR / h5py rows, handles kept", packed(), None, H5PY_ROWS),
    Check("packed, true random, CSR / AnnCollection", packed(), 30, ANN_COLLECTION),
    Check("plain .h5ad, true random / AnnCollection", plain(), 15, ANN_COLLECTION),
    Check("gzip .h5ad, block 64 / scDataset block 64, fetch 64", GZIP_64, 5,
          SCDATASET_64_GZIP),
    Check("conversion of plain .h5ad, in order / annbatch's (which shuffles)", CONVERT, 5,
          ANNBATCH_CONVERT),
    Check("conversion, peak resident MB", CONVERT, 1000, figure="resident_mb", is_at_most=True),
    Check("conversion, peak anonymous MB", CONVERT, 1000, figure="anonymous_mb", is_at_most=True),
    Check("bits a non-zero: index, value and overhead, source gene order",
          packed(kind="size"), 9.5, figure="matrix_bits_per_value", is_at_most=True),
    Check("bits a non-zero: index, value and overhead, gene order by mean",
          Task("cellfeed", kind="size", data="packed_mean"), 7.5,
          figure="matrix_bits_per_value", is_at_most=True),
    Check("bits a non-zero with obs, genes and manifest, source gene order",
          packed(kind="size"), None, figure="bits_per_value"),
    Check("bits a non-zero with obs, genes and manifest, gene order by mean",
          Task("cellfeed", kind="size", data="packed_mean"), None, figure="bits_per_value"),
    Check("open + first batch, packed, seconds", packed(kind="first_batch"), 0.2,
          figure="first_batch_s", is_at_most=True),
    Check("open + first batch, 200,000 / 20,000 cells", packed(kind="first_batch"), 1.5,
          packed(kind="first_batch", atlas="small"), figure="first_batch_s", is_at_most=True),
    Check("loading packed with 256 MB budget, peak resident MB", packed(memory_budget="256MB"),
          456, figure="resident_mb", is_at_most=True),
    Check("loading packed with 256 MB budget, peak anonymous MB", packed(memory_budget="256MB"),
          456, figure="anonymous_mb", is_at_most=True),
    Check("loading gzip, block 64, with 256 MB budget, peak anonymous MB",
          gzip(memory_budget="256MB", **blocks(64)), 456, figure="anonymous_mb", is_at_most=True),
]  # fmt: skip

# Rates alone, beside the fastest way of each rival and beside the disk.
SPEED = [
    Check("packed, true random / annbatch chunk 1", packed(), 150, ANNBATCH_1),
    Check("packed, true random / MappedCollection, 2 workers", packed(), 350, MAPPED_2),
    Check("packed, true random, cells/s", packed(), 1e6),
    Check("packed, true random, cold / device at the same request size, depth 64",
          packed(is_cold=True, atlas="large"), 0.9, DEVICE_RANDOM),
    Check("packed, true random, cold, direct / device, reads of one or two pages, depth 64",
          packed(is_cold=True, atlas="large", options=DIRECT), 0.9, DEVICE_RANDOM),
    Check("packed, block 64 / annbatch chunk 256", packed(**blocks(64)), 7, ANNBATCH_256),
    Check("packed, block 256 / annbatch chunk 256", packed(**blocks(256)), 7, ANNBATCH_256),
    Check("packed, block 256, cold / device bandwidth, blocks of that size, depth 64",
          packed(is_cold=True, atlas="large", **blocks(256)), 0.9, DEVICE_BLOCKS),
    Check("packed, block 256, cold, direct / device bandwidth, blocks of that size, depth 64",
          packed(is_cold=True, atlas="large", options=DIRECT, **blocks(256)), 0.9, DEVICE_BLOCKS),
    Check("plain .h5ad, true random / AnnCollection", plain(), 50, ANN_COLLECTION),
    Check("plain .h5ad, true random / h5py rows in a Dataset", plain(), 400, H5PY_DATASET),
    Check("plain .h5ad, true random / h5py rows, handles kept", plain(), None, H5PY_ROWS),
    Check("plain .h5ad, sequential / h5py", plain(access="stream"), 6, H5PY_STREAM),
    Check("gzip .h5ad, block 64 / scDataset block 64, fetch 64", GZIP_64, 12,
          SCDATASET_64_GZIP),
    Check("gzip .h5ad, true random, budget covers the file / AnnCollection",
          gzip(memory_budget="8GB", fetch_factor=256), 50, ANN_COLLECTION_GZIP),
    Check("gzip .h5ad, true random, 256 MB budget / AnnCollection",
          gzip(memory_budget="256MB", options=OPEN_EACH_EPOCH), 4, ANN_COLLECTION_GZIP),
    Check("dense, 2,048 genes, normalised, log1p, true random / MappedCollection, 2 workers",
          packed(output="selected"), 100, MAPPED_SELECTED),
    Check("conversion of plain .h5ad, shuffled / annbatch's", CONVERT_SHUFFLED, 15,
          ANNBATCH_CONVERT),
    Check("conversion of plain .h5ad, in order / annbatch's (which shuffles)", CONVERT, None,
          ANNBATCH_CONVERT),
    Check("conversion, shuffled, peak resident MB", CONVERT_SHUFFLED, 1000, figure="resident_mb",
          is_at_most=True),
    Check("verify / device bandwidth", packed(kind="verify", atlas="large"), 0.7, DEVICE_STREAM),
    Check("packed, true random, 2 threads / 1 thread", packed(threads=2), 1.85, packed(threads=1)),
    Check("open + first batch, packed, seconds", packed(kind="first_batch"), 0.1,
          figure="first_batch_s", is_at_most=True),
    Check("open + first batch, large / 200,000 cells", packed(kind="first_batch", atlas="large"),
          1.5, packed(kind="first_batch"), figure="first_batch_s", is_at_most=True),
]  # fmt: skip

# Rivals that no goal names.
OTHER_RIVALS = [
    Check("plain .h5ad, true random / AnnLoader", plain(), None, Task("ann_loader")),
    Check("packed, true random / MappedCollection, 0 workers", packed(), None, MAPPED),
    Check("our MappedCollection in a DataLoader, plain .h5ad / lamindb's", OUR_MAPPED, 50, MAPPED),
    Check("our MappedCollection in a DataLoader, gzip .h5ad / lamindb's", OUR_MAPPED_GZIP, 20,
          MAPPED_GZIP),
    Check("plain .h5ad, true random / scDataset block 1, fetch 1", plain(), None,
          Task("scdataset", **blocks(1, 1))),
    Check("plain .h5ad, block 16 / scDataset block 16, fetch 16", plain(**blocks(16)), None,
          Task("scdataset", **blocks(16))),
    Check("plain .h5ad, block 64 / scDataset block 64, fetch 64", plain(**blocks(64, 64)), None,
          Task("scdataset", **blocks(64, 64))),
    Check("packed, block 64 / annbatch chunk 64", packed(**blocks(64)), None, ANNBATCH_64),
    Check("packed, true random / tiledbsoma-ml's own shuffle", packed(), None,
          Task("tiledbsoma", data="tiledbsoma")),
    Check("packed, true random / numpy memory map of raw CSR", packed(), None,
          Task("memmap", data="memmap")),
    Check("packed, true random / torch tensors in memory", packed(), None,
          Task("torch_memory", data="memmap")),
    Check("dense, 2,048 genes, normalised, log1p / the same made beforehand in memory",
          packed(output="selected"), None,
          Task("torch_memory", data="memmap", output="selected")),
    Check("packed, sequential / h5py", packed(access="stream"), None, H5PY_STREAM),
]  # fmt: skip

SHAPES = ("nnz300", "nnz6000", "genes60000", "float", "files10", "files1000")


def shape_checks() -> list[Check]:
    """The same loader on other shapes of data beside AnnCollection: nothing may collapse."""
    checks = []
    for atlas in SHAPES:
        rival = Task("ann_collection", atlas=atlas)
        checks.append(Check(f"{atlas}: packed / AnnCollection", packed(atlas=atlas), None, rival))
        checks.append(Check(f"{atlas}: plain / AnnCollection", plain(atlas=atlas), None, rival))
    return checks


# Seconds only: that every part still runs, with what a developer's machine has.
SHORT = [
    Check("packed, true random / h5py rows", packed(), None, H5PY_ROWS),
    Check("plain .h5ad, true random / AnnCollection", plain(), None, ANN_COLLECTION),
    Check("gzip .h5ad, block 64 / memory map", gzip(**blocks(64)), None,
          Task("memmap", data="memmap")),
    Check("dense, selected genes", packed(output="selected"), None),
    Check("conversion, cells/s", CONVERT, None),
    Check("bits a non-zero", packed(kind="size"), None, figure="bits_per_value"),
    Check("open + first batch", packed(kind="first_batch"), None, figure="first_batch_s"),
]  # fmt: skip

SETS: dict[str, tuple[str, list[Check]]] = {
    "main": ("The main job", MAIN_JOB),
    "speed": ("Speed beside rivals", SPEED),
    "rivals": ("Other rivals", OTHER_RIVALS),
    "shapes": ("Other shapes of data", shape_checks()),
    "short": ("Short run", SHORT),
}
