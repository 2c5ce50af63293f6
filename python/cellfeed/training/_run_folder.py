"""The folder of a run: what is in it, and which checkpoint training goes on from."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

from .. import _core
from .._arguments import as_local_path, as_text
from ..errors import AlreadyExistsError, InputOutputError, InvalidArgumentError, NotFoundError
from ._whole_file import whole_file

LAST, BEST = "last.ckpt", "best.ckpt"
_LOCK = ".lock"
_LONGEST_NAME = 255


class RunFolder:
    """``runs/NAME``: checkpoints, metrics.csv, report.json and report.html.

    Parameters
    ----------
    runs_dir
        Folder of runs.
    name
        Of this one.
    """

    def __init__(self, runs_dir: str | os.PathLike[str], name: str) -> None:
        name = as_text("name", name)
        if name in ("", ".", "..") or os.sep in name or "\0" in name:
            raise InvalidArgumentError(f"name must be that of a folder in runs, not {name!r}")
        if (n_bytes := len(os.fsencode(name))) > _LONGEST_NAME:
            raise InvalidArgumentError(
                f"name has {n_bytes} bytes, and that of a folder has {_LONGEST_NAME} at most: "
                f"{name[:20]}..."
            )
        self.path = Path(as_local_path("runs_dir", runs_dir)) / name

    @property
    def last(self) -> Path:
        """The newest checkpoint."""
        return self.path / "checkpoints" / LAST

    @property
    def best(self) -> Path:
        """The checkpoint with the lowest validation loss."""
        return self.path / "checkpoints" / BEST

    def resolve(self, resume: str | os.PathLike[str] | None) -> Path | None:
        """The checkpoint to go on from.

        Parameters
        ----------
        resume
            ``None``: a new run; ``"auto"``: the newest checkpoint of this one, if it has any; or a
            checkpoint.

        Raises
        ------
        NotFoundError
            There is no such checkpoint.
        InputOutputError
            It cannot be looked for.
        """
        if resume is None:
            return None
        path = self.last if resume == "auto" else Path(as_local_path("resume", resume))
        try:
            is_there = path.is_file()
        except OSError as error:
            raise InputOutputError(f"{path}: {error.strerror}") from error
        if not is_there and resume != "auto":
            raise NotFoundError(f"{path}: there is no such checkpoint to resume")
        return path if is_there else None

    @contextlib.contextmanager
    def held(
        self, resume: str | os.PathLike[str] | None, checkpoint: Path | None
    ) -> Iterator[None]:
        """Make the folder, and keep other processes from training this run meanwhile.

        Parameters
        ----------
        resume, checkpoint
            What :meth:`resolve` was asked, and its answer.

        Raises
        ------
        AlreadyExistsError
            It holds a run, and this one does not go on from there; another process trains it, or
            has since it was looked for a checkpoint; or a part of it is a link.
        InputOutputError
            It cannot be made.
        """
        is_own = resume == "auto" or (
            checkpoint is not None and checkpoint.resolve().parent == self.last.parent.resolve()
        )
        if not is_own:
            self._require_empty()
        self._refuse_links()
        try:
            self.last.parent.mkdir(parents=True, exist_ok=True)
            lock = self._open_lock()
        except OSError as error:
            at = self.path if error.filename is None else error.filename
            raise InputOutputError(f"{at}: {error.strerror}") from error
        try:
            self._lock(lock)
            if not is_own:
                self._require_empty()
            elif self.resolve(resume) != checkpoint:
                raise AlreadyExistsError(
                    f"{self.path}: another process trained this run meanwhile; start again"
                )
            yield
        finally:
            os.close(lock)

    def keep(self, checkpoint: Path) -> None:
        """Make a checkpoint the newest of this run where there is none, as it was over.

        Parameters
        ----------
        checkpoint
            What training went on from.
        """
        if not self.last.is_file():
            with whole_file(self.last) as beside:
                shutil.copyfile(checkpoint, beside)

    def drop_best(self) -> None:
        """Remove the best checkpoint that a run before this one left.

        Raises
        ------
        InputOutputError
            It cannot be removed.
        """
        try:
            self.best.unlink(missing_ok=True)
        except OSError as error:
            raise InputOutputError(f"{self.best}: {error.strerror}; remove it") from error

    def _require_empty(self) -> None:
        checkpoints = self.last.parent
        names = set(os.listdir(self.path)) if self.path.is_dir() else set()
        if checkpoints.is_dir() and not any(checkpoints.iterdir()):
            names -= {checkpoints.name}
        if names - {_LOCK}:
            raise AlreadyExistsError(
                f"{self.path} holds a run: continue it with "
                f"{_core.argument_text('resume', 'auto')}, or give this one another name "
                f"({_core.argument_text('name')})"
            )

    def _refuse_links(self) -> None:
        for part in (self.path, self.last.parent, self.path / _LOCK):
            if part.is_symlink():
                raise AlreadyExistsError(
                    f"{part} is a link, and no run is written to where it leads: remove it, or "
                    f"give this run another name or folder ({_core.argument_text('name')}, "
                    f"{_core.argument_text('runs_dir')})"
                )

    def _open_lock(self) -> int:
        path, flags = self.path / _LOCK, os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            return os.open(path, flags | os.O_RDWR | os.O_CREAT, 0o666)
        except PermissionError:  # of another user, in a folder that is shared
            return os.open(path, flags | os.O_RDONLY)

    def _lock(self, lock: int) -> None:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            process = os.read(lock, 20).decode() or "another one"
            raise AlreadyExistsError(
                f"{self.path}: a process ({process}) trains this run; wait for its end, or give "
                f"this one another name ({_core.argument_text('name')})"
            ) from error
        except OSError as error:
            warnings.warn(
                f"{self.path / _LOCK}: cannot be locked ({error.strerror}): do not train this run "
                "in two processes at once",
                UserWarning,
                stacklevel=5,
            )
            return
        holder = os.read(lock, 20)
        if holder and not holder.isdigit():
            raise AlreadyExistsError(f"{self.path / _LOCK} is no lock of a run; move it away")
        with contextlib.suppress(OSError):  # who it is helps, and is not needed
            os.ftruncate(lock, 0)
            os.pwrite(lock, str(os.getpid()).encode(), 0)
