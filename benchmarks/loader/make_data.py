"""Makes the atlases that the benchmarks read: each format when it is asked for and not there.

usage: make_data.py [--data DIR] [--like FILE] [--scale X] ATLAS:FORMAT...     e.g. main:plain
main:packed
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shutil
import subprocess
from dataclasses import dataclass

import numpy as np
from processes import Interpreters, measure
from task import Task

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEFAULT_DATA = ROOT / "build" / "bench" / "data"
RUN_PROGRAM = "from cellfeed._program import main; main()"
CONVERT = """
import json, sys, warnings, cellfeed
options = json.loads(sys.argv[1])
made = cellfeed.convert_to_shards(**options)
warnings.simplefilter("ignore")  # the same cells again
for _ in range(int(sys.argv[2]) - 1):
    cellfeed.append_to_shards(options["cells"], made, force=True)
"""


@dataclass(frozen=True)
class Spec:
    """What an atlas is made of: ``repeats_of`` others, cells like real ones, or random ones of a
    given shape.
    """

    n_cells: int
    n_files: int = 4
    repeats_of: str | None = None
    n_genes: int = 0  # 0: cells like those of a real file
    values_per_cell: int = 0
    has_counts: bool = True


SPECS = {
    "main": Spec(200_000),
    "small": Spec(20_000),
    "large": Spec(5_000_000, repeats_of="main"),
    "nnz300": Spec(40_000, 2, None, 18_708, 300),
    "nnz6000": Spec(8_000, 2, None, 30_000, 6_000),
    "genes60000": Spec(20_000, 2, None, 60_000, 2_000),
    "float": Spec(20_000, 2, None, 18_708, 1_000, has_counts=False),
    "files10": Spec(20_000, 10, None, 18_708, 1_000),
    "files1000": Spec(20_000, 1000, None, 18_708, 1_000),
}


def find_real_cells() -> str | None:
    """The file of counts that the tables are about, where the test data lies."""
    root = os.environ.get("CELLFEED_TEST_DATA") or ROOT.parent / "shared" / "data"
    path = pathlib.Path(root) / "anndata" / "scp1884.h5ad"
    return str(path) if path.exists() else None


class Workshop:
    """Makes atlases below ``directory``. ``scale`` shrinks all of them, for trying things out."""

    def __init__(
        self,
        directory: str | os.PathLike[str],
        interpreters: Interpreters,
        like: str | None = None,
        scale: float = 1.0,
    ) -> None:
        self.directory = pathlib.Path(directory).resolve()
        self.interpreters = interpreters
        self.like = like or find_real_cells()
        self.scale = scale

    def atlas_dir(self, atlas: str) -> str:
        return str(self.directory / atlas)

    def n_cells(self, atlas: str) -> int:
        spec = SPECS[atlas]
        return max(int(spec.n_cells * self.scale), 2 * spec.n_files)

    def ensure(self, atlas: str, data: str) -> None:
        """Make one format of an atlas unless it is there; raises RuntimeError saying what
        failed.
        """
        home = self.directory / atlas
        home.mkdir(parents=True, exist_ok=True)
        is_made = home / f".made_{data}"
        if is_made.exists():
            return
        print(f"making {atlas}: {data}", flush=True)
        if data in ("plain", "gzip"):
            self._make_files(atlas, home, data)
        elif data == "memmap":
            self.ensure(atlas, "plain")
            self._write_raw_arrays(home)
        elif data in ("packed", "packed_mean"):
            self._shard(atlas, home, data)
        else:
            self.ensure(atlas, "plain")
            self._convert_for_rival(atlas, home, data)
        is_made.touch()

    def remove_shards(self) -> None:
        """Forget our own shards, which another build may write differently."""
        for made in self.directory.glob("*/.made_packed*"):
            made.unlink()
            shutil.rmtree(made.parent / made.name.removeprefix(".made_"), ignore_errors=True)

    def _make_files(self, atlas: str, home: pathlib.Path, data: str) -> None:
        spec = SPECS[atlas]
        if spec.repeats_of:
            raise RuntimeError(f"{atlas} repeats {spec.repeats_of} and is there as shards only")
        if data == "gzip" and not spec.n_genes:
            self.ensure(atlas, "plain")
            for i in range(spec.n_files):
                _write_by_anndata(home / f"plain_{i}.h5ad", home / f"gzip_{i}.h5ad", "gzip")
        elif not spec.n_genes:
            self._simulate(atlas, home)
        else:
            rng = np.random.default_rng(0)
            share = self.n_cells(atlas) // spec.n_files
            for i in range(spec.n_files):
                write_random_cells(
                    home / f"{data}_{i}.h5ad", rng, share, spec.n_genes, spec.values_per_cell,
                    spec.has_counts, "gzip" if data == "gzip" else None,
                )  # fmt: skip
        self._write_facts(atlas, home, data)

    def _simulate(self, atlas: str, home: pathlib.Path) -> None:
        like = self.like
        if like is None:
            like = str(self.directory / "like.h5ad")
            if not os.path.exists(like):
                write_random_cells(
                    pathlib.Path(like), np.random.default_rng(0), 1000, 2000, 150, True
                )
        n_files = SPECS[atlas].n_files
        self._program(
            "simulate", "--like", like, "--cells", str(self.n_cells(atlas)),
            "--files", str(n_files), "--order", _label_column(like),
            "--output", str(home / "simulated.h5ad"), "--overwrite", "--quiet",
        )  # fmt: skip
        for i in range(n_files):
            simulated = home / f"simulated_{i}.h5ad"
            _write_by_anndata(simulated, home / f"plain_{i}.h5ad")
            simulated.unlink()

    def _write_facts(self, atlas: str, home: pathlib.Path, data: str) -> None:
        import h5py

        paths = [home / f"{data}_{i}.h5ad" for i in range(SPECS[atlas].n_files)]
        nnz = n_cells = 0
        labels: list[np.ndarray] = []
        for path in paths:
            with h5py.File(path) as file:
                n_rows, n_genes = (int(n) for n in file["X"].attrs["shape"])
                n_cells, nnz = n_cells + n_rows, nnz + file["X/data"].shape[0]
                column = file["obs"][_label_column(str(path))]
                names = column["categories"].asstr()[:].astype(object)
                labels.append(names[column["codes"][:]])
        facts = {"n_cells": n_cells, "n_genes": n_genes, "n_files": len(paths), "nnz": int(nnz)}
        (home / "atlas.json").write_text(json.dumps(facts))
        codes = np.unique(np.concatenate(labels).astype(str), return_inverse=True)[1]
        np.save(home / "labels.npy", codes.astype(np.int16))

    def _shard(self, atlas: str, home: pathlib.Path, data: str) -> None:
        spec = SPECS[atlas]
        source, n_repeats = home, 1
        if spec.repeats_of:
            source = self.directory / spec.repeats_of
            n_repeats = max(spec.n_cells // SPECS[spec.repeats_of].n_cells, 1)
        self.ensure(spec.repeats_of or atlas, "plain")
        facts = json.loads((source / "atlas.json").read_text())
        inputs = [str(source / f"plain_{i}.h5ad") for i in range(facts["n_files"])]
        target = home / data
        shutil.rmtree(target, ignore_errors=True)
        order = "mean" if data == "packed_mean" else "source"
        arguments = {"cells": inputs, "output_dir": str(target), "gene_order": order}
        self._python(CONVERT, json.dumps(arguments), str(n_repeats))
        if spec.repeats_of:
            facts = {
                **facts,
                "n_cells": facts["n_cells"] * n_repeats,
                "nnz": facts["nnz"] * n_repeats,
            }
            (home / "atlas.json").write_text(json.dumps(facts))
            np.save(home / "labels.npy", np.tile(np.load(source / "labels.npy"), n_repeats))

    def _write_raw_arrays(self, home: pathlib.Path) -> None:
        import h5py

        facts = json.loads((home / "atlas.json").read_text())
        (home / "memmap").mkdir(exist_ok=True)

        def array(name: str, dtype: type, length: int) -> np.memmap:
            return np.lib.format.open_memmap(
                home / "memmap" / f"{name}.npy", "w+", dtype, (length,)
            )

        values, columns = (
            array("values", np.float32, facts["nnz"]),
            array("columns", np.int32, facts["nnz"]),
        )
        bounds = np.zeros(facts["n_cells"] + 1, np.int64)
        row = at = 0
        for i in range(facts["n_files"]):
            with h5py.File(home / f"plain_{i}.h5ad") as file:
                x = file["X"]
                n, n_rows = x["data"].shape[0], x["indptr"].shape[0] - 1
                values[at : at + n], columns[at : at + n] = x["data"][:], x["indices"][:]
                bounds[row : row + n_rows + 1] = at + x["indptr"][:].astype(np.int64)
                row, at = row + n_rows, at + n
        values.flush(), columns.flush()
        np.save(home / "memmap" / "bounds.npy", bounds)

    def _convert_for_rival(self, atlas: str, home: pathlib.Path, rival: str) -> None:
        target = home / rival
        shutil.rmtree(target, ignore_errors=True)
        result = measure(
            Task(rival, kind="convert", atlas=atlas), str(home), self.interpreters,
            seconds=0, windows=0, target=str(target), timeout_s=3600,
        )  # fmt: skip
        problem = result.get("failed") or result.get("skipped")
        if problem:
            shutil.rmtree(target, ignore_errors=True)
            raise RuntimeError(problem)

    def _program(self, *arguments: str) -> None:
        self._python(RUN_PROGRAM, *arguments)

    def _python(self, code: str, *arguments: str) -> None:
        environment = dict(os.environ)
        if self.interpreters.package:
            environment["PYTHONPATH"] = self.interpreters.package
        command = [self.interpreters.default, "-c", code, *arguments]
        run = subprocess.run(command, capture_output=True, text=True, env=environment)
        if run.returncode != 0:
            said = (run.stderr + run.stdout).strip()[-600:]
            raise RuntimeError(f"cellfeed could not make the data: {said}")


def _write_by_anndata(source: pathlib.Path, target: pathlib.Path, compression: str = "") -> None:
    """Files as anndata lays them out, so that no program meets chunks of our choice."""
    import anndata

    anndata.read_h5ad(source).write_h5ad(target, compression=compression or None)


def _label_column(path: str) -> str:
    """The first of the label columns that files of ours may have."""
    import h5py

    with h5py.File(path) as file:
        for name in ("Celltype", "cell_type", "celltype", "louvain", "bulk_labels"):
            if name in file["obs"]:
                return name
        raise RuntimeError(f"{path} has no column of cell types to order cells by")


def write_random_cells(
    path: pathlib.Path,
    rng: np.random.Generator,
    n_cells: int,
    n_genes: int,
    values_per_cell: int,
    has_counts: bool,
    compression: str | None = None,
) -> None:
    """Independent genes of very different rates, in runs of eight labels; log values when not
    counts.
    """
    import anndata
    import pandas as pd
    import scipy.sparse

    rates = 1 / np.arange(2, n_genes + 2) ** 0.7
    # Scaled so that the expected number of genes seen in a cell is the one asked for.
    scale = values_per_cell / rates.sum()
    for _ in range(60):
        scale *= values_per_cell / np.minimum(rates * scale, 0.95).sum()
    shares = rng.permutation(np.minimum(rates * scale, 0.95)).astype(np.float32)
    blocks = []
    for begin in range(0, n_cells, 1000):
        is_seen = rng.random((min(1000, n_cells - begin), n_genes), dtype=np.float32) < shares
        block = scipy.sparse.csr_matrix(is_seen, dtype=np.float32)
        block.data = rng.geometric(0.5, block.nnz).astype(np.float32)
        if not has_counts:
            block.data = np.log1p(block.data * rng.uniform(0.5, 8, block.nnz)).astype(np.float32)
        blocks.append(block)
    labels = np.repeat([f"type {i}" for i in range(8)], -(-n_cells // 8))[:n_cells]
    obs = pd.DataFrame({"cell_type": pd.Categorical(labels)})
    obs.index = [f"{path.stem}_{i}" for i in range(n_cells)]
    var = pd.DataFrame(index=[f"gene{i}" for i in range(n_genes)])
    x = scipy.sparse.vstack(blocks, format="csr")
    anndata.AnnData(x, obs=obs, var=var).write_h5ad(path, compression=compression)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="+", metavar="ATLAS:FORMAT")
    parser.add_argument("--data", default=DEFAULT_DATA, help="where atlases lie")
    parser.add_argument("--like", help="real cells to draw from")
    parser.add_argument("--scale", type=float, default=1.0, help="shrink every atlas")
    parser.add_argument("--package", help="a directory that holds cellfeed/")
    args = parser.parse_args()
    workshop = Workshop(args.data, Interpreters(package=args.package), args.like, args.scale)
    for what in args.what:
        workshop.ensure(*what.split(":"))


if __name__ == "__main__":
    main()
