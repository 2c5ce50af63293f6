"""Windows that a loader copied out together: :class:`SeriesBatch`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

from .._arguments import as_row_numbers, refuse_one_row, suggestion
from .._on_device import MovesToDevice
from ..errors import NoSuchKeyError
from ._dataset import SeriesDataset
from ._windows import Arrays

if TYPE_CHECKING:
    import torch

    from .._options import Rows
    from .._torch import SeriesTensors


class SeriesBatch(MovesToDevice["SeriesTensors"]):
    """Windows that a loader copied out together.

    ``batch["x"]``, ``batch["y"]`` and ``batch["entity"]`` are what ``batch.x``, ``batch.y`` and
    ``batch.obs["entity"]`` are; ``batch.to("cuda")`` has them as tensors on a device.

    Attributes
    ----------
    x
        numpy array ``(n, window, len(features))``.
    y
        numpy array ``(n, horizon)``, or ``(n, horizon, len(target))`` for a list of targets.
    future
        numpy array ``(n, horizon, len(future))``; None for a data set without.
    static
        numpy array ``(n, len(static))``; None for a data set without.
    index
        Numbers of the windows in the data set, int64.
    is_padding
        One bool a window: True where it only fills up the batch.
    """

    def __init__(
        self,
        ds: SeriesDataset[Any],
        inputs: Arrays,
        y: np.ndarray,
        index: npt.NDArray[np.int64],
        padding: np.ndarray | None,
    ) -> None:
        self._ds = ds
        self._obs: dict[str, np.ndarray] | None = None
        parts = inputs if isinstance(inputs, dict) else {"x": inputs}
        self.x: np.ndarray = parts["x"]
        self.y, self.index = y, index
        self.future: np.ndarray | None = parts.get("future")
        self.static: np.ndarray | None = parts.get("static")
        self.is_padding = np.zeros(len(index), bool) if padding is None else np.asarray(padding)

    def __len__(self) -> int:
        return len(self.index)

    @property
    def parts(self) -> dict[str, np.ndarray]:
        """The arrays by name: ``"x"``, ``"y"``; ``"future"`` and ``"static"`` where they are."""
        parts = {"x": self.x, "y": self.y, "future": self.future, "static": self.static}
        return {name: part for name, part in parts.items() if part is not None}

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""
        return sum(part.nbytes for part in self.parts.values())

    def keys(self) -> list[str]:
        """Names that ``batch[name]`` takes: of arrays, then of obs."""
        names = [*self.parts, *self._ds.static, "entity", "time"]
        return list(dict.fromkeys(names))

    @overload
    def __getitem__(self, rows: str) -> np.ndarray: ...

    @overload
    def __getitem__(self, rows: Rows) -> SeriesBatch: ...

    def __getitem__(self, rows: str | Rows) -> np.ndarray | SeriesBatch:
        """``batch["x"]``, ``batch["entity"]`` (as in ``obs``), or some of the windows, copied.

        Parameters
        ----------
        rows
            An array or one of ``obs``; or a slice, a boolean mask or positions in any order.
        """
        if isinstance(rows, str):
            self.require_key(rows)
            return self.parts[rows] if rows in self.parts else self.obs[rows]
        refuse_one_row(rows)
        places = as_row_numbers(rows, len(self), ("row", "window"))
        parts = {name: part[places] for name, part in self.parts.items()}
        y = parts.pop("y")
        return SeriesBatch(self._ds, parts, y, self.index[places], self.is_padding[places])

    def require_key(self, name: str) -> None:
        """Whether ``batch[name]`` is there.

        Raises
        ------
        NoSuchKeyError
            It is not.
        """
        if name not in self:
            raise NoSuchKeyError(f"no {name!r} in this batch{suggestion(name, self.keys())}")

    def obs_numbers(self) -> dict[str, np.ndarray]:
        """``obs`` as a tensor holds it: codes of texts, dates as nanoseconds since 1970."""
        return self._ds.numbers_of(self.obs)

    def _tensors(self) -> SeriesTensors:
        from .._torch import SeriesTensors

        return SeriesTensors.of(self)

    def __repr__(self) -> str:
        return f"SeriesBatch(x {self.x.shape}, y {self.y.shape})"

    @property
    def obs(self) -> dict[str, np.ndarray]:
        """``"entity"``: its number in the directory, int64; ``"time"``: that of the last row of x.

        Times are datetime64, or int64 where the series has numbers. Static columns of the data set
        are there by their names, as they were read.
        """
        if self._obs is None:
            self._obs = self._ds.obs_of(self.index)
        return self._obs

    @property
    def entities(self) -> list[str]:
        """The name of each window's entity."""
        return [self._ds.entity_of(int(i)) for i in self.index]

    def to_torch(self) -> tuple[Any, torch.Tensor]:
        """``(X, y)`` as tensors that share the memory of the arrays.

        ``X`` is a tensor; of a data set with ``future`` or ``static`` a dict of ``"x"`` and these.
        """
        from .._torch import as_tensors

        given = {name: part for name, part in self.parts.items() if name != "y"}
        return as_tensors(given if len(given) > 1 else self.x, self.y)
