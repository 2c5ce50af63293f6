"""Which cells are of an organism, by what their files say of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .._arguments import as_text, is_url, suggestion
from ..errors import InvalidArgumentError

if TYPE_CHECKING:
    from .._cells.protocols import Cells

_COLUMN = "organism"


def organism_mask(cells: Cells, organism: str) -> npt.NDArray[np.bool_] | None:
    """Which cells are of an organism, one bool a cell; None where no file says what they are of.

    Parameters
    ----------
    cells
        A collection. Its obs column ``organism`` counts, and else ``uns["organism"]`` of the
        ``.h5ad`` file.
    organism
        ``"Homo sapiens"``, ``"homo_sapiens"``: as the Census takes it.

    Raises
    ------
    InvalidArgumentError
        No cell is of it; of some cells it is said what they are of, and of others it is not.
    """
    wanted = _key(as_text("organism", organism))
    codes, labels = _by_obs(cells)
    unknown = codes < 0
    if unknown.any():
        codes[unknown], labels = _by_uns(cells, unknown, labels)
    if (codes < 0).all():
        return None
    if (codes < 0).any():
        row = int(np.flatnonzero(codes < 0)[0])
        path = cells.files[int(cells.locate([row])[0][0])]["path"]
        raise InvalidArgumentError(
            f"{path}: organism {organism!r} is asked for, and of {(codes < 0).sum():,} cells it is "
            f"not said what they are of (the first is row {row}), but of others it is: leave "
            "organism out, and choose cells with cells.filter(...)"
        )
    mask: npt.NDArray[np.bool_] = np.isin(
        codes, [code for code, label in enumerate(labels) if _key(label) == wanted]
    )
    if not mask.any():
        raise InvalidArgumentError(
            f"no cell is of organism {organism!r}{suggestion(organism, labels)}"
        )
    return mask


def _key(organism: str) -> str:
    return re.sub(" +", "_", organism).lower()


def _by_obs(cells: Cells) -> tuple[np.ndarray, list[str]]:
    if _COLUMN not in cells.obs_keys():
        return np.full(len(cells), -1, dtype=np.int64), []
    labels = [str(label) for label in cells.categories(_COLUMN)]
    return cells.obs_values(_COLUMN).astype(np.int64), labels


def _by_uns(cells: Cells, unknown: np.ndarray, labels: list[str]) -> tuple[np.ndarray, list[str]]:
    """Codes of the unknown cells, and all labels."""
    labels = list(labels)
    code_of_file = np.full(len(cells.files), -1, dtype=np.int64)
    for number, file in enumerate(cells.files):
        local = file["format"] == "h5ad" and not is_url(file["path"])
        label = _organism_of_file(file["path"]) if local else None
        if label is not None:
            labels += [] if label in labels else [label]
            code_of_file[number] = labels.index(label)
    return code_of_file[cells.locate(np.flatnonzero(unknown))[0]], labels


def _organism_of_file(path: str) -> str | None:
    import h5py

    with h5py.File(path, "r") as file:
        stored = file.get(f"uns/{_COLUMN}")
        if not isinstance(stored, h5py.Dataset) or stored.shape != ():
            return None
        value = stored[()]
    return value.decode() if isinstance(value, bytes) else None
