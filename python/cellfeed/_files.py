"""The files that a collection is of, from which a copy of it is opened in another process."""

from __future__ import annotations

from dataclasses import dataclass

from ._arguments import absolute
from ._cells.open_options import OpenOptions
from ._cells.protocols import Cells
from ._cores import files_core
from ._several import with_default_obs
from .collection import CellCollection
from .errors import CorruptDataError
from .storage import public_options, take_public_options


@dataclass(frozen=True)
class Files:
    """The files of a collection, and how they were opened."""

    paths: list[str]
    options: OpenOptions

    @property
    def steps(self) -> list[str]:
        """None: all of the files."""
        return []

    def reduce(self, cells: Cells) -> tuple[object, ...]:
        """What pickle makes a copy of the collection by: it opens the files again."""
        paths = [absolute(path) for path in self.paths]
        storage = public_options(paths)
        return _reopen, (paths, self.options, cells.default_obs, cells.fingerprint, storage)


def _reopen(
    paths: list[str],
    options: OpenOptions,
    obs: list[str],
    fingerprint: int,
    storage: dict[str, dict[str, str]],
) -> CellCollection:
    take_public_options(storage)
    # What there was to say was said when they were opened first.
    cells = with_default_obs(
        CellCollection(files_core(paths, options), Files(paths, options), []), obs
    )
    if cells.fingerprint != fingerprint:
        raise CorruptDataError(
            "the files are not those that this collection was opened from: they changed since, or "
            f"this process has others under these paths; open them again: {', '.join(paths)}"
        )
    return cells
