"""Transforms that run on the loader's threads, row by row."""

from __future__ import annotations

from collections.abc import Iterable

from . import _core
from .errors import InvalidTypeError

__all__ = ["Log1p", "NormalizeTotal", "SelectGenes", "Transform"]


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
        return type(self) is type(other) and self._settings == other._settings  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(repr(self))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), tuple(self._settings.values())


class NormalizeTotal(Transform):
    """Scale each cell to the same total, as ``scanpy.pp.normalize_total`` does.

    ``value * target_sum / library_size``; the library size is the sum over **all** genes of the
    file, also those that a later selection or an inner join drops. Cells without counts stay as
    they are.

    Parameters
    ----------
    target_sum
        Total of each cell afterwards.
    """

    def __init__(self, target_sum: float = 1e4) -> None:
        super().__init__(target_sum=target_sum)
        self._core = _core.NormalizeTotal(float(target_sum))


class Log1p(Transform):
    """``log(1 + value)``, as ``scanpy.pp.log1p`` does; within 2 ulp of the exact logarithm.

    Parameters
    ----------
    base
        Base of the logarithm; natural when omitted.
    """

    def __init__(self, base: float | None = None) -> None:
        super().__init__(base=base)
        self._core = _core.Log1p(0.0 if base is None else float(base))


class SelectGenes(Transform):
    """Keep the genes named, in the order given: column ``j`` of a batch is ``genes[j]``.

    Parameters
    ----------
    genes
        Gene names, each once. Names that the data lacks raise ``NoSuchKeyError`` when the loader is
        made.
    """

    def __init__(self, genes: Iterable[str]) -> None:
        if isinstance(genes, str):
            raise InvalidTypeError(
                f"SelectGenes takes a list of gene names, not one str: {genes!r}"
            )
        names = [str(g) for g in genes]
        super().__init__(genes=names)
        self._core = _core.SelectGenes(names)

    def __repr__(self) -> str:
        return f"SelectGenes(<{len(self._settings['genes'])} genes>)"  # type: ignore[arg-type]
