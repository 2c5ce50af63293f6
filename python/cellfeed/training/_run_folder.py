"""The folder of a run: what is in it, and which checkpoint training goes on from."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

from .._arguments import as_local_path, as_text
from ..errors import AlreadyExistsError, InputOutputError, InvalidArgumentError, NotFoundError

LAST, BEST = "last.ckpt", "best.ckpt"
_LOCK = ".lock"


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
        """
        if resume is None:
            return None
        if resume == "auto":
            return self.last if self.last.is_file() else None
        path = Path(as_local_path("resume", resume))
        if not path.is_file():
            raise NotFoundError(f"{path}: there is no such checkpoint to resume")
        return path

    @contextlib.contextmanager
    def held(self, is_resumed: bool) -> Iterator[None]:
        """Make the folder, and keep other processes from training this run meanwhile.

        Parameters
        ----------
        is_resumed
            Whether this run goes on from what is there.

        Raises
        ------
        AlreadyExistsError
            It holds a run, and this one does not go on from there; or another process trains it.
        """
        if not is_resumed and self.path.exists() and set(os.listdir(self.path)) - {_LOCK}:
            raise AlreadyExistsError(
                f"{self.path} holds a run: continue it with --resume auto, or give this one "
                "another --name"
            )
        try:
            self.last.parent.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise InputOutputError(f"{self.last.parent}: {error.strerror}") from error
        try:
            self._lock(lock)
            yield
        finally:
            os.close(lock)

    def _lock(self, lock: int) -> None:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            process = os.read(lock, 20).decode() or "another one"
            raise AlreadyExistsError(
                f"{self.path}: a process ({process}) trains this run; wait for its end, or give "
                "this one another --name"
            ) from error
        except OSError as error:
            if error.errno not in (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK):
                raise
            warnings.warn(
                f"{self.path}: cannot be locked ({error.strerror}): do not train this run in two "
                "processes at once",
                UserWarning,
                stacklevel=4,
            )
            return
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
