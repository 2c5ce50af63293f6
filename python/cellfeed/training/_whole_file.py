"""Files of a run: there whole or not at all, and a full disk by its name."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import platform
import stat
from collections.abc import Iterator
from pathlib import Path

from ..errors import InputOutputError, NoSpaceError

# Characters of up to four bytes; a name has 255 of these.
_LONGEST = 48


@contextlib.contextmanager
def whole_file(path: Path, is_writer: bool = True, *, has_rivals: bool = False) -> Iterator[Path]:
    """A path to write to, which takes the place of the other once that was done.

    Parameters
    ----------
    path
        The file; what it held stays until then, and where writing fails.
    is_writer
        False on ranks that only take part while another one writes.
    has_rivals
        Others may write the same file meanwhile: each writes a part of its own, and the last one
        takes the place. Parts of processes that were killed go.

    Raises
    ------
    NoSpaceError, InputOutputError
        It cannot be written.
    """
    beside = _own_part(path) if has_rivals else path.with_name(f".{path.name}.part")
    try:
        if is_writer:
            beside.unlink(missing_ok=True)  # a link, for one, which would be followed
        yield beside
        if is_writer:
            os.replace(beside, path)
    except OSError as error:
        kind = NoSpaceError if error.errno == errno.ENOSPC else InputOutputError
        raise kind(f"{path}: cannot be written: {error.strerror or error}") from error
    except RuntimeError as error:
        # What torch's writer says where a disk is full.
        if not any(text in str(error) for text in ("file write failed", "unexpected pos")):
            raise
        if isinstance(error.__context__, KeyboardInterrupt):  # in the middle of a write
            raise error.__context__ from None
        raise NoSpaceError(f"{path}: cannot be written; is the disk full?") from error
    finally:
        if is_writer:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)


def _own_part(path: Path) -> Path:
    """A name beside the file that no other process has; what dead ones left is removed."""
    # Process numbers are those of one machine, and there of one container.
    where = f"{platform.node()[:20]}-{os.stat('/proc/self/ns/pid').st_ino}"
    stem = f".{path.name[:_LONGEST]}.{where}"
    for left in path.parent.glob(f"{glob.escape(stem)}.*.part"):
        process = left.name.removeprefix(f"{stem}.").partition(".")[0]
        if process.isdigit() and not os.path.exists(f"/proc/{process}"):
            with contextlib.suppress(OSError):
                left.unlink()
    return path.with_name(f"{stem}.{os.getpid()}.{os.urandom(4).hex()}.part")


def require_place(path: Path) -> Path:
    """Where a file can be written, at the end of links: nothing is there, or a regular file.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    InputOutputError
        Something else is there, which a file would take the place of; there is no such folder, or
        nothing can be written to it; or the path cannot be that of a file.
    """
    try:
        is_free = stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:  # also a link that leads nowhere yet
        is_free = True
    except OSError as error:
        raise InputOutputError(f"{path}: cannot be written: {error.strerror}") from error
    if not is_free:
        raise InputOutputError(f"{path}: is not a regular file; choose another output")
    place = Path(os.path.realpath(path)) if path.is_symlink() else path
    if not place.parent.is_dir():
        raise InputOutputError(f"{path}: there is no folder {str(place.parent)!r}; make it first")
    if not os.access(place.parent, os.W_OK | os.X_OK):
        raise InputOutputError(f"{path}: folder {str(place.parent)!r} cannot be written to")
    return place
