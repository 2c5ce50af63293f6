"""Attacks on what the program writes: one system call of a run fails, or kills it.

Afterwards the target holds what was there before or the new data, whole, the message names what
happened, and the next run ends with the bytes of an undisturbed one. `make attack` runs this file
as a program; test_faults.py runs a short, seeded choice.
"""

import argparse
import collections
import dataclasses
import functools
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import anndata
import numpy as np
import pandas as pd
import scipy.sparse

import cellfeed
from cellfeed.data.vocab import GeneVocab

PROGRAM = pathlib.Path(cellfeed.__file__).parent / "bin/cellfeed"
SHIM = pathlib.Path(__file__).parents[2] / "build/wheel/fault_shim.so"
TIMEOUT_S = 60

# What each call can do to a program.
FAULTS = {
    "open": ("EIO", "ENOSPC", "EINTR", "kill"),
    "read": ("EIO", "EINTR", "short"),
    "pread": ("EIO", "EINTR", "short"),
    "write": ("EIO", "ENOSPC", "EINTR", "short", "kill", "died"),
    "pwrite": ("EIO", "ENOSPC", "EINTR", "short", "kill", "died"),
    "fsync": ("EIO", "ENOSPC", "EINTR", "kill", "died"),
    "ftruncate": ("EIO", "ENOSPC", "EINTR", "kill", "died"),
    "rename": ("EIO", "ENOSPC", "EINTR", "kill", "died"),
    "unlink": ("EIO", "EINTR", "kill", "died"),
    "mkdir": ("EIO", "ENOSPC", "EINTR", "kill", "died"),
    "flock": ("EIO", "EINTR", "kill"),
}
# A signal or half a transfer changes nothing, whichever call it strikes. What libhdf5 reads or
# opens is not ours to repeat.
HARMLESS = {"EINTR", "short"}


class WrongError(AssertionError):
    """Data were lost, or are not what an undisturbed run writes."""


class CrashError(AssertionError):
    """The program ended otherwise than by itself, or without a named error."""


class HangError(AssertionError):
    """The program did not end."""


@dataclasses.dataclass(frozen=True)
class Fault:
    call: str
    n: int  # from 1; 0: every second one
    what: str
    under: str  # part of the paths it strikes

    @property
    def kills(self) -> bool:
        return self.what in ("kill", "died")

    def __str__(self) -> str:
        return f"{self.call}:{self.n}:{self.what}"


@dataclasses.dataclass(frozen=True)
class Run:
    code: int
    errors: str


@dataclasses.dataclass(frozen=True)
class Scenario:
    """A command, what it begins with, and how it is done again after a fault."""

    name: str
    command: Callable[[pathlib.Path], list]
    again: tuple[str, ...]  # options of the runs that follow a fault, the next if one is refused
    begins_with: str | None = None  # a folder of the atlas that is there already
    strikes: str = "out"  # the folder whose files it is about; else one of the atlas
    program: tuple = (PROGRAM,)

    @property
    def writes_shards(self) -> bool:
        verb = self.command(pathlib.Path())[0]
        return verb in ("shard", "append") or self.name == "preprocess"


def write_atlas(folder: pathlib.Path) -> pathlib.Path:
    """Two small files, and shards of other cells that are to be overwritten."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, (name, n_cells) in enumerate({"a": 260, "b": 140, "old": 330}.items()):
        generator = np.random.default_rng(number)
        counts = generator.poisson(0.4, (n_cells, 50)).astype(np.float32)
        obs = pd.DataFrame(
            {
                "cell_type": pd.Categorical(generator.choice(["B", "T", "NK"], n_cells)),
                "n_counts": counts.sum(axis=1),
                "note": generator.choice(["x", "yy", "zzz"], n_cells).astype(object),
            },
            index=[f"{name}{i}" for i in range(n_cells)],
        )
        data = anndata.AnnData(scipy.sparse.csr_matrix(counts), obs=obs)
        data.var_names = [f"gene{i}" for i in range(50)]
        data.write_h5ad(folder / f"{name}.h5ad")
    (folder / "old_shards").mkdir()
    run(shard_command("old")(folder), folder / "old_shards")
    (folder / "old_vocabulary").mkdir()
    GeneVocab.from_genes(["a", "b"]).save(folder / "old_vocabulary/v.json")
    (folder / "old_file").mkdir()
    shutil.copy(folder / "old.h5ad", folder / "old_file/x.h5ad")
    return folder


def shard_command(inputs: str, *options: str) -> Callable[[pathlib.Path], list]:
    def command(atlas: pathlib.Path) -> list:
        files = [atlas / f"{name}.h5ad" for name in inputs.split("+")]
        return ["shard", *files, "--output-dir", "{out}", "--shard-size", 100, "--quiet",
                "--threads", 2, *options]  # fmt: skip

    return command


def file_command(*words: str) -> Callable[[pathlib.Path], list]:
    return lambda atlas: [*(word.format(atlas=atlas, out="{out}") for word in words), "--quiet"]


def preprocess_command(output: str) -> Callable[[pathlib.Path], list]:
    def command(atlas: pathlib.Path) -> list:
        return ["preprocess", atlas / "a.h5ad", atlas / "b.h5ad", "--output", output, "--hvg", 20,
                "--keep-counts", "--quiet", "--threads", 2,
                *([] if output.endswith(".h5ad") else ["--shard-size", 100])]  # fmt: skip

    return command


def reshard_command(atlas: pathlib.Path) -> list:
    return ["shard", atlas / "old_shards", "--output-dir", "{out}", "--shard-size", 150, "--quiet",
            "--threads", 2]  # fmt: skip


def append_command(atlas: pathlib.Path) -> list:
    return ["append", atlas / "a.h5ad", atlas / "b.h5ad", "--to", "{out}", "--quiet",
            "--threads", 2]  # fmt: skip


# Fails as the program does.
SAVE_VOCABULARY = """
import sys
from cellfeed.errors import CellfeedError
from cellfeed.data.vocab import GeneVocab
try:
    GeneVocab.from_genes(["x", "y", "z"]).save(sys.argv[1])
except CellfeedError as error:
    sys.exit(f"cellfeed: error: {error}")
"""
RESUMED = ("--resume", "--overwrite")
SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("shard", shard_command("a+b"), RESUMED),
        Scenario("shuffle", shard_command("a+b", "--shuffle", "--seed", "3"), RESUMED),
        Scenario("mean", shard_command("a+b", "--gene-order", "mean"), RESUMED),
        Scenario("dense", shard_command("a+b", "--layout", "dense"), RESUMED),
        Scenario("overwrite", shard_command("a+b", "--overwrite"), RESUMED, "old_shards"),
        Scenario("append", append_command, ("--resume",), "old_shards"),
        Scenario("inputs", shard_command("a+b"), RESUMED, strikes="."),
        Scenario("shards_as_inputs", reshard_command, RESUMED, strikes="old_shards"),
        Scenario(
            "vocabulary",
            lambda atlas: ["{out}/v.json"],
            ("",),
            "old_vocabulary",
            program=(sys.executable, "-c", SAVE_VOCABULARY),
        ),
        Scenario(
            "export",
            file_command("export", "{atlas}/old_shards", "--output", "{out}/x.h5ad"),
            ("", "--overwrite"),
        ),
        Scenario(
            "export_over",
            file_command(
                "export",
                "{atlas}/old_shards",
                "--output",
                "{out}/x.h5ad",
                "--overwrite",
                "--compression",
                "gzip",
            ),
            ("", "--overwrite"),
            "old_file",
        ),
        Scenario("preprocess", preprocess_command("{out}"), RESUMED),
        Scenario("preprocess_file", preprocess_command("{out}/x.h5ad"), ("", "--overwrite")),
        Scenario(
            "simulate",
            file_command(
                "simulate",
                "--like",
                "{atlas}/a.h5ad",
                "--cells",
                "300",
                "--files",
                "2",
                "--output",
                "{out}/x.h5ad",
            ),
            ("", "--overwrite"),
        ),
    )
}


def run(
    words: list,
    out: pathlib.Path,
    fault: Fault | None = None,
    log: tuple[pathlib.Path, str] | None = None,
    program: tuple = (PROGRAM,),
) -> Run:
    """Run the program; log: a file for the calls on paths that hold a text, and the text."""
    environment = dict(os.environ)
    if fault or log:
        environment["LD_PRELOAD"] = str(SHIM)
    if fault:
        environment |= {"FAULT": str(fault), "FAULT_UNDER": fault.under}
    if log:
        environment |= {"FAULT_LOG": str(log[0]), "FAULT_UNDER": log[1]}
    command = [*program, *(str(word).replace("{out}", str(out)) for word in words)]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise HangError(f"{command}: {fault}") from error
    return Run(done.returncode, done.stderr.decode(errors="replace"))


def files_of(folder: pathlib.Path) -> dict[str, bytes]:
    """Names and bytes; the generation of rewritten shards, and checksums that hold it, left out."""
    files = {}
    for path in sorted(folder.rglob("*")):
        # A lock that could not be removed is free, and taken by the next writer.
        if not path.is_file() or path.name == ".lock":
            continue
        content = path.read_bytes()
        if path.name == "shard_metadata.json":
            content = re.sub(rb'"checksum": "\w{16}"\n}\n$', b"", content)
            content = re.sub(rb"\.g\d+\.", b".", content)
        files[re.sub(r"\.g\d+\.", ".", path.name)] = content
    return files


def listed_files(folder: pathlib.Path) -> dict[str, bytes] | None:
    """What the manifest speaks of, as files_of() has it; None without a manifest."""
    path = folder / "shard_metadata.json"
    if not path.exists():
        return None
    manifest = json.loads(path.read_bytes())
    names = {"shard_metadata.json", manifest["genes"]["file"]}
    for shard in manifest["shards"]:
        names |= {shard[part]["file"] for part in ("matrix", "obs", "fixed_obs")}
        names |= {matrix["matrix"]["file"] for matrix in shard["matrices"]}
    missing = names - set(os.listdir(folder))
    if missing:
        raise WrongError(f"files of the manifest are missing: {sorted(missing)}")
    with tempfile.TemporaryDirectory() as only_listed:
        for name in names:
            shutil.copy(folder / name, only_listed)
        return files_of(pathlib.Path(only_listed))


class Attack:
    """One scenario and what it gives undisturbed."""

    def __init__(self, scenario: Scenario, atlas: pathlib.Path, folder: pathlib.Path) -> None:
        self.scenario = scenario
        self.atlas = atlas
        self.folder = folder / scenario.name
        self.folder.mkdir(parents=True)
        self.words = scenario.command(atlas)
        self.run = functools.partial(run, program=scenario.program)
        self.before = (
            files_of(atlas / scenario.begins_with) if scenario.begins_with is not None else {}
        )
        self.after = self._undisturbed()

    def _make_target(self) -> pathlib.Path:
        out = self.folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        if self.scenario.begins_with is not None:
            shutil.copytree(self.atlas / self.scenario.begins_with, out)
        elif not self.scenario.writes_shards:
            out.mkdir()
        return out

    def _undisturbed(self) -> dict[str, bytes]:
        out = self._make_target()
        done = self.run(self.words, out)
        assert done.code == 0, done
        return files_of(out)

    @property
    def under(self) -> str:
        strikes = self.scenario.strikes
        return str(self.folder / "out" if strikes == "out" else self.atlas / strikes)

    def counts(self) -> dict[str, int]:
        """Calls of each kind in an undisturbed run."""
        log = self.folder / "calls"
        log.unlink(missing_ok=True)
        done = self.run(self.words, self._make_target(), log=(log, self.under))
        assert done.code == 0, done
        return collections.Counter(log.read_text().split())

    def faults(self) -> list[Fault]:
        return [
            Fault(call, n, what, self.under)
            for call, count in sorted(self.counts().items())
            for what in FAULTS.get(call, ())
            for n in ([0, *range(1, count + 1)] if what in HARMLESS else range(1, count + 1))
        ]

    def kill_points(self) -> list[Fault]:
        return [fault for fault in self.faults() if fault.kills and fault.call in KILL_CALLS]

    def strike(self, fault: Fault) -> str:
        """Return "right" or "named"; anything else is an exception."""
        out = self._make_target()
        done = self.run(self.words, out, fault)
        place = f"{self.scenario.name} {fault}: exit {done.code}: {done.errors.strip()[-300:]}"
        self._check_end(fault, done, place)
        self._check_nothing_lost(out, done, place)
        outcome = "named"
        if done.code == 0:
            outcome = "right"
            if files_of(out) != self.after:
                raise WrongError(f"{place}: exit 0 and {_difference(files_of(out), self.after)}")
        self._check_next_run(out, place)
        return outcome

    def _check_end(self, fault: Fault, done: Run, place: str) -> None:
        if fault.kills and done.code == -signal.SIGKILL:
            return
        lines = done.errors.strip().splitlines()
        is_named = done.code == 1 and len(lines) == 1 and lines[0].startswith("cellfeed: error: ")
        if done.code != 0 and not is_named:
            raise CrashError(place)
        if done.code == 1 and ".tmp-" in lines[0]:
            raise CrashError(f"{place}: the message holds a temporary name")
        if self.scenario.name in (
            "inputs", "export", "export_over", "preprocess_file", "simulate",
        ):  # fmt: skip
            return  # what libhdf5 says of them is not ours
        if fault.what in HARMLESS and done.code != 0:
            raise CrashError(f"{place}: a signal is no error")
        reasons = {"EIO": "Input/output error", "ENOSPC": "No space left on device"}
        if done.code != 0 and reasons.get(fault.what, "") not in lines[0]:
            raise CrashError(f"{place}: the message says another reason")

    def _check_nothing_lost(self, out: pathlib.Path, done: Run, place: str) -> None:
        if self.scenario.writes_shards:
            there = listed_files(out) if out.exists() else None
            if there not in (self.after, self.before or None):
                raise WrongError(f"{place}: neither the old nor the new shards are whole")
            return
        there = {name: content for name, content in files_of(out).items() if ".tmp-" not in name}
        for name, content in there.items():
            if content not in (self.after.get(name), self.before.get(name)):
                raise WrongError(f"{place}: {name} is neither the old nor the new file")
        if self.before and not there:
            raise WrongError(f"{place}: the old file is gone")

    def _check_next_run(self, out: pathlib.Path, place: str) -> None:
        words = [word for word in self.words if word not in ("--overwrite", "--resume")]
        for option in self.scenario.again:
            done = self.run([*words, option] if option else words, out)
            if done.code == 0:
                break
        else:
            raise WrongError(f"{place}: nothing goes on from there: {done.errors}")
        if files_of(out) != self.after:
            raise WrongError(f"{place}: after {option}: {_difference(files_of(out), self.after)}")
        if self.scenario.writes_shards and (done := run(["verify", out], out)).code != 0:
            raise WrongError(f"{place}: verify says {done.errors}")


KILL_CALLS = ("unlink", "rename", "fsync", "ftruncate")


def _difference(found: dict[str, bytes], wanted: dict[str, bytes]) -> str:
    return (
        f"missing {sorted(wanted.keys() - found.keys())}, too many "
        f"{sorted(found.keys() - wanted.keys())}, other bytes "
        f"{sorted(name for name in found.keys() & wanted.keys() if found[name] != wanted[name])}"
    )


@dataclasses.dataclass
class Tally:
    """What came of the attacks of one scenario."""

    tried: int = 0
    right: int = 0
    named: int = 0
    wrong: int = 0
    crash: int = 0
    hang: int = 0
    failures: list[str] = dataclasses.field(default_factory=list)

    def add(self, attack: Attack, fault: Fault) -> None:
        self.tried += 1
        try:
            outcome = attack.strike(fault)
        except AssertionError as error:
            outcome = {WrongError: "wrong", CrashError: "crash", HangError: "hang"}[type(error)]
            self.failures.append(f"{outcome}: {error}")
        setattr(self, outcome, getattr(self, outcome) + 1)


def run_long_form(seconds: float, seed: int, names: list[str]) -> dict[str, Tally]:
    """Every fault of every scenario, in turn and at random, until the time is over."""
    with tempfile.TemporaryDirectory(prefix="cellfeed-attack-") as folder:
        atlas = write_atlas(pathlib.Path(folder) / "atlas")
        attacks = {
            name: Attack(SCENARIOS[name], atlas, pathlib.Path(folder) / "work") for name in names
        }
        end = time.monotonic() + seconds
        faults = {name: attack.faults() for name, attack in attacks.items()}
        tallies = {name: Tally() for name in names}
        for name in names:
            random.Random(f"{seed} {name}").shuffle(faults[name])
        while any(faults.values()) and time.monotonic() < end:
            for name in names:
                if faults[name] and time.monotonic() < end:
                    tallies[name].add(attacks[name], faults[name].pop())
    return tallies


def table_of(tallies: dict[str, Tally]) -> str:
    columns = ("tried", "right", "named", "wrong", "crash", "hang")
    lines = ["| attacked | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    rows = {name: [getattr(tally, column) for column in columns] for name, tally in tallies.items()}
    rows["all"] = [sum(row[i] for row in rows.values()) for i in range(len(columns))]
    lines += [
        f"| {name} | " + " | ".join(f"{n:,}" for n in row) + " |" for name, row in rows.items()
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scenario", nargs="*", choices=SCENARIOS, default=list(SCENARIOS))
    parser.add_argument("--table", type=pathlib.Path, help="page whose table is replaced")
    arguments = parser.parse_args()
    tallies = run_long_form(arguments.seconds, arguments.seed, arguments.scenario)
    table = table_of(tallies)
    for name, tally in tallies.items():
        for failure in tally.failures:
            print(f"{name}: {failure}")
    print(table)
    if arguments.table:
        page = arguments.table.read_text()
        marks = "<!-- attack: begin -->\n", "<!-- attack: end -->"
        before, rest = page.split(marks[0])
        arguments.table.write_text(
            before + marks[0] + table + marks[1] + rest.split(marks[1], maxsplit=1)[1]
        )
    return int(any(tally.failures for tally in tallies.values()))


if __name__ == "__main__":
    sys.exit(main())
