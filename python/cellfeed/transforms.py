"""Transforms of a ``Loader``, run on its threads row by row; and the hooks of :mod:`.adapters`."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Real

from . import _core
from ._arguments import as_bool, as_float, shown
from ._cells.genes import gene_list
from .adapters import (
    adata_to_mindex,
    bionemo_to_tensor,
    fetch_transform_adata,
    hf_tahoe_to_tensor,
)
from .errors import InvalidArgumentError, InvalidTypeError

__all__ = [
    "Log1p",
    "NormalizeTotal",
    "SelectGenes",
    "Transform",
    "adata_to_mindex",
    "bionemo_to_tensor",
    "fetch_transform_adata",
    "hf_tahoe_to_tensor",
]


class Transform:
    """Base of the transforms: holds its core object; picklable, comparable by its settings."""

    _core: _core.Transform

    def __init__(self, **settings: object) -> None:
        self._settings = settings

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self._settings.items())})"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Transform) or type(self) is not type(other):
            return False
        return self._settings == other._settings

    def __hash__(self) -> int:
        return hash(repr(self))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), tuple(self._settings.values())


class NormalizeTotal(Transform):
    """Scale each cell to the same total, as ``scanpy.pp.normalize_total`` does.

    ``value * target_sum / library_size``; the library size is the sum over **all** genes of the
    file, also those that a selection (before or after it) or an inner join drops, of the values as
    the transforms before this one left them. Cells without counts stay as they are. Over shards
    that were made without some genes no other transform of values may come before it.

    Parameters
    ----------
    target_sum
        Total of each cell afterwards.
    force
        Also where the data says that its values are normalised or logarithms already
        (:func:`cellfeed.preprocess` records it); without it making the loader is an error.
    """

    def __init__(self, target_sum: float = 1e4, force: bool = False) -> None:
        if isinstance(target_sum, bool) or not isinstance(target_sum, Real):
            raise InvalidTypeError(
                "NormalizeTotal: target_sum must be a number, such as 1e4 (scanpy's default, the "
                f"median over all cells, is not known to a stream of batches), not "
                f"{shown(target_sum)}"
            )
        target_sum = as_float("NormalizeTotal: target_sum", target_sum)
        super().__init__(target_sum=target_sum, **_forced(force))
        self._core = _core.NormalizeTotal(target_sum, is_forced=force)


class Log1p(Transform):
    """``log(1 + value)``, as ``scanpy.pp.log1p`` does; within 2 ulp of the exact logarithm.

    A value of -1 or less, as scaled data has, is an error that names the cell.

    Parameters
    ----------
    base
        Base of the logarithm; natural when omitted.
    force
        Also where the data says that its values are logarithms already.
    """

    def __init__(self, base: float | None = None, force: bool = False) -> None:
        base = None if base is None else as_float("base", base)
        if base == 0:  # which is the natural logarithm's name in the core
            raise InvalidArgumentError("base must be positive and not 1, not 0")
        super().__init__(base=base, **_forced(force))
        self._core = _core.Log1p(0.0 if base is None else base, is_forced=force)


class SelectGenes(Transform):
    """Keep the genes named, in the order given: column ``j`` of a batch is ``genes[j]``.

    Parameters
    ----------
    genes
        Gene names, each once, in the wanted order; a ``str`` is one gene. Names that the data lacks
        raise ``NoSuchKeyError`` when the loader is made.
    """

    def __init__(self, genes: Iterable[str]) -> None:
        self._names = gene_list(genes)
        super().__init__(genes=self._names)
        self._core = _core.SelectGenes(self._names)

    def __repr__(self) -> str:
        return f"SelectGenes(<{len(self._names)} genes>)"


def _forced(force: bool) -> dict[str, bool]:
    return {"force": True} if as_bool("force", force) else {}


def core_transforms(transforms: object) -> list[_core.Transform]:
    """Core objects of a list of transforms that a user gave."""
    if isinstance(transforms, Transform):
        raise InvalidTypeError(
            f"transforms must be a list, not {shown(transforms)}: write transforms=[{transforms}]"
        )
    if not isinstance(transforms, (list, tuple)):
        raise InvalidTypeError(f"transforms must be a list of transforms, not {shown(transforms)}")
    return [_core_transform(transform) for transform in transforms]


def _core_transform(transform: object) -> _core.Transform:
    if isinstance(transform, Transform):
        return transform._core
    kind = transform if isinstance(transform, type) else None
    name = "" if kind is None else kind.__name__
    remedy = f": write {name}(...)" if kind and issubclass(kind, Transform) else ""
    raise InvalidTypeError(
        f"each of transforms must be NormalizeTotal(...), Log1p(...) or SelectGenes(...), not "
        f"{f'the class {name}' if name else shown(transform)}{remedy}; functions of Python go to "
        f"collate_fn"
    )
