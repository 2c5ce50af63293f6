"""Cells for the models of scvi-tools; the first use imports ``scvi``, torch and Lightning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._extras import with_extra

__all__ = ["CellDataModule"]

if TYPE_CHECKING:
    from ._data_module import CellDataModule as CellDataModule


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from . import _data_module
    except ModuleNotFoundError as error:
        raise with_extra(error, "scvi") from error
    return getattr(_data_module, name)
