"""The main job on real data: make an atlas, shard it, train on shuffled batches, compare loaders.

Run by `make quickstart`, or with a file of your own: `make quickstart DATA=cells.h5ad`.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import subprocess
import sys
import time
import warnings
from typing import Any

import numpy as np
import scipy.sparse
import torch

import cellfeed as cf
from cellfeed.data.sharding import convert_to_shards, validate_shard_dir
from cellfeed.data.vocab import GeneVocab

BATCH_SIZE = 512
HELD_OUT = 0.2  # of the source cells
MAX_GENES = 2000
LABEL_COLUMNS = (
    "cell_type",
    "celltype",
    "bulk_labels",
    "cell_types",
    "annotation",
    "leiden",
    "louvain",
)


def say(text: str = "") -> None:
    print(text, flush=True)


def step(number: int, text: str) -> None:
    say(f"\n[{number}/6] {text}")


def write_scanpy_cells(path: pathlib.Path) -> None:
    """Write the 700 labelled PBMC of scanpy's wheel as a file of today's encoding."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import anndata
        import scanpy

        pbmc = scanpy.datasets.pbmc68k_reduced()
        # X is scaled to mean 0; raw holds the log1p values behind it.
        raw = anndata.AnnData(
            X=scipy.sparse.csr_matrix(pbmc.raw.X),
            obs=pbmc.obs[["bulk_labels"]],
            var=pbmc.raw.var[[]],
        )
        raw.write_h5ad(path)


def choose_label(cells: cf.CellCollection, wanted: str | None) -> str | None:
    """Find the obs column to learn: the one asked for, else one with a usual name."""
    if wanted is not None:
        cells.categories(wanted)  # refuses a column that is not there or holds numbers
        return wanted
    by_lower_name = {name.lower(): name for name in cells.obs_keys()}
    for name in LABEL_COLUMNS:
        column = by_lower_name.get(name)
        if column is not None and cells.obs_column(column).is_categorical:
            return column
    return None


def simulate_atlas(like: pathlib.Path, layer: str, n_cells: int, output: pathlib.Path) -> dict:
    """Run the command `cellfeed simulate`, as a user would."""
    command = [sys.executable, "-m", "cellfeed", "simulate", "--like", str(like), "--layer", layer]
    command += ["--cells", str(n_cells), "--output", str(output), "--overwrite", "--json"]
    say(f"      $ cellfeed {' '.join(command[3:-2])}")
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if run.returncode != 0:
        sys.exit(run.returncode)
    return json.loads(run.stdout)


def split_by_source(cells: cf.CellCollection, label: str) -> tuple[np.ndarray, np.ndarray]:
    """Mask training and held-out cells; copies of one source cell never lie on both sides."""
    source = cells.obs_values("source_cell")
    sources = np.unique(source)
    held_out = np.random.default_rng(0).choice(
        sources, max(1, int(len(sources) * HELD_OUT)), replace=False
    )
    is_held_out = np.isin(source, held_out)
    is_labelled = cells.obs_values(label) >= 0
    return is_labelled & ~is_held_out, is_labelled & is_held_out


def train(loader: cf.Loader, label: str, n_genes: int, n_classes: int) -> torch.nn.Module:
    """One epoch of a small classifier."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(n_genes, 256), torch.nn.ReLU(), torch.nn.Dropout(0.2),
        torch.nn.Linear(256, n_classes),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    every = max(1, len(loader) // 5)
    for k, batch in enumerate(loader, start=1):
        labels = torch.from_numpy(batch.obs[label])
        loss = torch.nn.functional.cross_entropy(model(batch.to_torch()), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if k % every == 0:
            say(f"      batch {k} of {len(loader)}: loss {loss.item():.3f}")
    return model.eval()


def predict(model: torch.nn.Module, loader: cf.Loader, label: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the true and the predicted codes of the held-out cells."""
    truth, predicted = [], []
    with torch.no_grad():
        for batch in loader:
            truth.append(batch.obs[label].copy())
            predicted.append(model(batch.to_torch()).argmax(1).numpy())
    return np.concatenate(truth), np.concatenate(predicted)


def macro_f1(truth: np.ndarray, predicted: np.ndarray) -> float:
    """Mean over the classes that occur of 2 TP / (2 TP + FP + FN)."""
    scores = []
    for code in np.unique(truth):
        hits = np.sum((truth == code) & (predicted == code))
        scores.append(2 * hits / (np.sum(truth == code) + np.sum(predicted == code)))
    return float(np.mean(scores))


def rate(batches, seconds: float) -> float:
    """Cells per second of an iterable of batch sizes, for at most about `seconds`."""
    iterator = iter(batches)
    next(iterator)  # files are open and threads are warm
    start, n_cells = time.perf_counter(), 0
    for size in iterator:
        n_cells += size
        if time.perf_counter() - start > seconds:
            break
    return n_cells / (time.perf_counter() - start)


def loader_batches(path: pathlib.Path, n_epochs: int = 100):
    loader = cf.Loader(cf.open(path), cf.BlockShuffling(block_size=1), batch_size=BATCH_SIZE)
    for _ in range(n_epochs):
        for batch in loader:
            yield batch.x.shape[0]


def random_rows(n_cells: int):
    random = np.random.default_rng(0)
    while True:
        yield random.choice(n_cells, min(BATCH_SIZE, n_cells), replace=False)


def h5py_batches(path: pathlib.Path):
    import h5py

    with h5py.File(path) as file:
        x = file["X"]
        indptr, n_genes = x["indptr"][:], int(x.attrs["shape"][1])
        for rows in random_rows(len(indptr) - 1):
            spans = [slice(indptr[row], indptr[row + 1]) for row in rows]
            starts = np.concatenate([[0], np.cumsum([span.stop - span.start for span in spans])])
            data = np.concatenate([x["data"][span] for span in spans])
            indices = np.concatenate([x["indices"][span] for span in spans])
            csr = scipy.sparse.csr_matrix((data, indices, starts), shape=(len(rows), n_genes))
            yield csr.shape[0]


def ann_collection_batches(path: pathlib.Path):
    import anndata
    from anndata.experimental import AnnCollection

    collection = AnnCollection([anndata.read_h5ad(path, backed="r")], join_vars="inner")
    for rows in random_rows(len(collection)):
        yield collection[rows].X.shape[0]


def compare_loaders(atlas: pathlib.Path, shards: pathlib.Path, seconds: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rates = {
            "cellfeed, shards": rate(loader_batches(shards), seconds),
            "cellfeed, .h5ad": rate(loader_batches(atlas), seconds),
            "AnnCollection, .h5ad": rate(ann_collection_batches(atlas), seconds),
            "h5py rows, .h5ad": rate(h5py_batches(atlas), seconds),
        }
    slowest = min(rates.values())
    for name, cells_per_second in rates.items():
        ratio = cells_per_second / slowest
        say(f"      {name:22s} {cells_per_second:12,.0f} cells/s {ratio:8.1f} x")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, help="your .h5ad file; 700 PBMC by default")
    parser.add_argument("--layer", default="X", help='"X", "raw/X", or the name of a layer')
    parser.add_argument("--label", help="obs column to learn")
    parser.add_argument("--cells", type=int, help="cells of the atlas (100,000)")
    parser.add_argument("--output-dir", type=pathlib.Path, default="build/quickstart")
    parser.add_argument("--short", action="store_true", help="a few seconds, for tests")
    arguments = parser.parse_args()
    arguments.cells = arguments.cells or (5_000 if arguments.short else 100_000)
    return arguments


def learn(
    cells: cf.CellCollection, real: pathlib.Path, arguments, has_counts: bool, label: str
) -> None:
    is_training, is_held_out = split_by_source(cells, label)
    classes = cells.categories(label)
    transforms: list[Any] = [cf.NormalizeTotal(1e4), cf.Log1p()] if has_counts else []
    if cells.n_vars > MAX_GENES:
        vocab = GeneVocab.from_adata(real, n_genes=MAX_GENES, layer=arguments.layer)
        transforms.append(cf.SelectGenes(vocab.genes))

    def load(strategy: cf.SamplingStrategy) -> cf.Loader[cf.Batch[np.ndarray]]:
        return cf.Loader(
            cells, strategy, BATCH_SIZE, output="dense", obs=[label], transforms=transforms
        )

    training = load(cf.BlockShuffling(1, indices=is_training))
    held_out = load(cf.Streaming(indices=is_held_out))
    say(f"      {is_training.sum():,} cells to train on, {is_held_out.sum():,} held out,")
    say(f"      {len(training.var_names):,} genes, {len(classes)} labels of {label!r}")
    start = time.perf_counter()
    model = train(training, label, len(training.var_names), len(classes))
    say(f"      epoch: {time.perf_counter() - start:.1f} s, of which "
        f"{training.stats()['wait_seconds']:.1f} s were waits for batches")  # fmt: skip
    truth, predicted = predict(model, held_out, label)
    say(f"      held out by source cell: accuracy {np.mean(truth == predicted):.3f}, "
        f"macro-F1 {macro_f1(truth, predicted):.3f}")  # fmt: skip


def run(arguments: argparse.Namespace) -> None:
    folder = arguments.output_dir
    folder.mkdir(parents=True, exist_ok=True)
    atlas, shards = folder / "atlas.h5ad", folder / "shards"

    step(1, "Real cells")
    real = arguments.data
    if real is None:
        real = folder / "real_cells.h5ad"
        write_scanpy_cells(real)
        say("      700 PBMC of 10x Genomics, from scanpy's wheel: log1p values, not counts")
    real_cells = cf.open(real, layer=arguments.layer)
    label = choose_label(real_cells, arguments.label)
    say(f"      {real_cells}")

    step(2, f"An atlas of {arguments.cells:,} cells like these")
    made = simulate_atlas(real, arguments.layer, arguments.cells, atlas)
    kind = "counts, thinned" if made["has_counts"] else "no counts: values dropped at random"
    say(f"      {made['n_cells']:,} cells x {made['n_genes']:,} genes ({kind})")

    step(3, "Shards: one small read for one cell")
    result = convert_to_shards(atlas, shards, overwrite=True, progress=True)
    megabytes = result.bytes / 1e6, atlas.stat().st_size / 1e6
    say(f"      {megabytes[0]:,.1f} MB of shards; the .h5ad has {megabytes[1]:,.1f} MB")

    step(4, "Every byte against its checksum")
    validate_shard_dir(shards)
    say("      every byte is as written")

    step(5, "A classifier of the labels, trained on shuffled batches for one epoch")
    if label is None:
        columns = ", ".join(real_cells.obs_keys()) or "none"
        say(f"      no column of labels was found, so nothing is trained; obs columns: {columns}")
        say(f"      choose one: python examples/quickstart.py --data {real} --label COLUMN")
    else:
        learn(cf.open(shards), real, arguments, made["has_counts"], label)

    step(6, f"Loaders on the same {arguments.cells:,} cells: true random order, CSR batches")
    compare_loaders(atlas, shards, seconds=0.3 if arguments.short else 3)

    say("\nFor your own model:\n")
    say("    import cellfeed as cf")
    say(f'    cells = cf.open("{shards}", obs={[label] if label else []})')
    say("    for batch in cf.Loader(cells, cf.BlockShuffling(block_size=64), batch_size=1024): ...")


if __name__ == "__main__":
    try:
        run(parse_arguments())
    except cf.errors.CellfeedError as error:
        sys.exit(f"quickstart: {error}")
    except KeyboardInterrupt:
        sys.exit("quickstart: stopped")
