"""Packages that only some uses need: each is imported when it is first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_EXTRAS = {
    "anndata": "scverse", "distributed": "dask", "lightning": "train", "pyarrow": "arrow",
    "pytorch_lightning": "train", "scvi": "scvi", "torch": "torch",
}  # fmt: skip
_BASE = ("pandas", "scipy")  # pip installs them with cellfeed, and somebody removed one


def with_extra(error: ModuleNotFoundError, extra: str | None = None) -> ModuleNotFoundError:
    """The same error, with the ``pip install`` that mends it if the package is of an extra.

    Parameters
    ----------
    error
        What the import raised.
    extra
        What to install; by default the smallest extra that has the package.
    """
    package = str(error.name).partition(".")[0]
    if package in _BASE:
        wanted = package
    elif package in _EXTRAS:
        wanted = f"'cellfeed[{extra or _EXTRAS[package]}]'"
    else:
        return error
    return ModuleNotFoundError(f"{package} is not installed: pip install {wanted}", name=error.name)


class _Package:
    """A package that is imported for its first attribute."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        try:
            value = getattr(importlib.import_module(self._name), attribute)
        except ModuleNotFoundError as error:
            raise with_extra(error) from error
        self.__dict__[attribute] = value
        return value


if TYPE_CHECKING:
    import anndata
    import pandas as pd
    import pyarrow as pa
    import scipy.sparse
else:
    anndata, pd, scipy = _Package("anndata"), _Package("pandas"), _Package("scipy")
    pa = _Package("pyarrow")

__all__ = ["anndata", "pa", "pd", "scipy", "with_extra"]
