"""Arguments of the data module, checked."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from .._arguments import as_float
from ..collection import CellCollection
from ..errors import InvalidArgumentError

_CELLS_TO_CHECK = 64


def shares_of(train_size: float | None, validation_size: float | None) -> dict[str, float]:
    """Name -> share of the cells; parts without any are left out."""
    if train_size is None:
        validation = as_float("validation_size", validation_size, 0)
        train = 1 - validation
    else:
        train = as_float("train_size", train_size, 0)
        validation = (
            1 - train if validation_size is None else as_float("validation_size", validation_size)
        )
    shares = {"train": train, "val": validation, "test": 1 - train - validation}
    if train <= 0 or min(shares.values()) < -1e-9:
        raise InvalidArgumentError(
            f"train_size must be above 0, and with validation_size at most 1: {train:g} and "
            f"{validation:g}"
        )
    return {name: share for name, share in shares.items() if share > 1e-9}


def require_genes(cells: CellCollection, genes: Sequence[str]) -> None:
    if cells.var_names.tolist() != list(genes):
        raise InvalidArgumentError(
            "the cells have other genes than the model, or in another order: open them with "
            'genes=registry["field_registries"]["X"]["state_registry"]["column_names"]'
        )


def warn_unless_counts(cells: CellCollection, model_name: str) -> None:
    if model_name.lower() == "sysvi":  # takes normalised values
        return
    rows = np.unique(np.linspace(0, len(cells) - 1, _CELLS_TO_CHECK).astype(np.int64))
    values = cells.read(rows, obs=[]).data
    if (values < 0).any() or (values != np.rint(values)).any():
        warnings.warn(
            f"X holds values that are no counts, and {model_name} models counts; "
            "cellfeed.open(..., layer=...) reads another matrix",
            UserWarning,
            stacklevel=3,
        )
