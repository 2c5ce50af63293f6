"""Files of a run: there whole or not at all, and a full disk by its name."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from ..errors import InputOutputError, NoSpaceError


@contextlib.contextmanager
def whole_file(path: Path, is_writer: bool = True) -> Iterator[Path]:
    """A path to write to, which takes the place of the other once that was done.

    Parameters
    ----------
    path
        The file; what it held stays until then, and where writing fails.
    is_writer
        False on ranks that only take part while another one writes.

    Raises
    ------
    NoSpaceError, InputOutputError
        It cannot be written.
    """
    beside = path.with_name(f".{path.name}.part")
    try:
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
