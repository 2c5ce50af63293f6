"""Windows over the rows of a series directory, as a map-style data set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, cast, overload

import numpy as np

from .. import _core
from .._arguments import as_choice, as_function, as_int, as_row_numbers
from .._options import DType, Names, Path, RowAccess, Rows
from ..errors import InvalidArgumentError, InvalidTypeError
from ._build import Time
from ._pairs import WindowPair, one_of
from ._scaler import Scaler
from ._split import split_by_entity, split_by_time
from ._transforms import WindowTransform
from ._windows import (
    Arrays,
    Between,
    Inputs,
    MaxGap,
    SeriesWindows,
    WindowKeywords,
    window_number,
)

Pair = TypeVar("Pair")

if TYPE_CHECKING:
    import numpy.typing as npt
    import torch
    from torch.utils.data import Dataset

    MapStyle = Dataset[Pair]
else:
    MapStyle = Generic  # a map-style data set is what has a length and items


class SeriesDataset(SeriesWindows, MapStyle[Pair]):
    """Windows of a series directory: ``ds[i]`` is ``(X, y)``.

    ``X`` holds ``window`` rows of features, ``y`` the targets of the ``horizon`` rows after them,
    all of one entity. Windows are counted entity by entity, in the order of time; none crosses from
    one entity to another. The rows stay on disk, mapped: a process holds a few numbers an entity,
    however many windows there are. Of a bucket they are read by ranges, a batch at once, or, with
    the storage option ``cache_dir``, mapped from a copy.

    Can be pickled (it is opened again where it arrives), and used in forked and spawned workers.

    Parameters
    ----------
    path
        A series directory (:func:`build_series`).
    window
        Rows of ``X``; the directory's default where it has one.
    horizon, stride
        Rows of ``y``, and rows between the starts of neighbouring windows; by default the
        directory's.
    target
        A feature, and ``y`` has the shape ``(horizon,)``; or a list of features, ``(horizon,
        len(target))``. By default the directory's, else all features of ``X`` that are not known
        ahead.
    features
        Which features ``X`` has, in this order; all by default.
    entities
        Names of the entities to take, in this order; all by default.
    between
        ``(first, end)``: times that all rows of a window, ``y`` included, lie in: at ``first`` or
        later and before ``end``. None leaves a side open.
    dtype
        ``"float32"`` or ``"float64"``.
    transform
        ``f(X, y)`` that returns the pair to use instead, called for each window.
    transforms
        What the core does to the values of each window, in this order: :class:`Differences` or
        :class:`LogReturns`, then :class:`WindowNorm`. :meth:`inverse` undoes them.
    future
        Features that are known ahead (the hour, a holiday, a price that is set): ``X`` is then a
        dict, ``"x"`` the window and ``"future"`` these features in the ``horizon`` rows after it,
        ``(horizon, len(future))``. None may be a target.
    static
        Columns of one value an entity (:func:`build_series`, ``static``): ``X`` is a dict too,
        ``"static"`` of shape ``(len(static),)``. Numbers are not scaled; texts are their places in
        ``categories``; NaN where an entity has none.
    access
        ``"map"``: windows are copied out of the system's cache of the file, which the disk fills.
        ``"direct"``: they are read past it, many at once, and again each time: for rows that take
        more memory than there is; of a local disk only. ``"auto"``: direct where all rows together
        take more than is available when the data set is made, and the disk can.
    max_gap
        No window crosses a longer step between two times: a length of time (``"3h"``, a timedelta
        or a timedelta64) or, of series whose times are numbers, a number. ``"auto"``: more than
        three times the median step of the entity, so weekends are no gaps of trading days and
        longer holidays are. ``None``: any step will do.

    Attributes
    ----------
    n_short
        Entities that are too short for any window.
    n_gaps
        Gaps that no window crosses.
    window, horizon, stride, features, target, future, static, access, max_gap
        As given, or by default.

    Warns
    -----
    UserWarning
        Some entities are too short for any window.

    Raises
    ------
    InvalidArgumentError
        Every entity is too short for a window, or an argument cannot be.
    NoSuchKeyError
        No such feature or entity; the nearest is named.
    NotFoundError, CorruptDataError
        The directory holds no finished series, or was damaged or cut off.
    """

    @overload
    def __init__(
        self: SeriesDataset[tuple[torch.Tensor, torch.Tensor]],
        path: Path,
        window: int | None = ...,
        horizon: int | None = ...,
        *,
        future: None = ...,
        static: None = ...,
        **options: Unpack[WindowKeywords],
    ) -> None: ...

    @overload
    def __init__(
        self: SeriesDataset[tuple[dict[str, torch.Tensor], torch.Tensor]],
        path: Path,
        window: int | None = ...,
        horizon: int | None = ...,
        *,
        future: Names | None = ...,
        static: Names | None = ...,
        **options: Unpack[WindowKeywords],
    ) -> None: ...

    @overload
    def __init__(
        self: SeriesDataset[Pair],
        path: Path,
        window: int | None = ...,
        horizon: int | None = ...,
        *,
        transform: Callable[[Any, torch.Tensor], Pair],
        future: Names | None = ...,
        static: Names | None = ...,
        **options: Unpack[WindowKeywords],
    ) -> None: ...

    def __init__(
        self,
        path: Path,
        window: int | None = None,
        horizon: int | None = None,
        stride: int | None = None,
        target: Names | None = None,
        features: Names | None = None,
        entities: Names | None = None,
        between: Between | None = None,
        dtype: DType = "float32",
        transform: Callable[[Any, torch.Tensor], Pair] | None = None,
        transforms: Sequence[WindowTransform] = (),
        future: Names | None = None,
        static: Names | None = None,
        access: RowAccess = "auto",
        max_gap: MaxGap = "auto",
    ) -> None:
        super().__init__(
            path, window, horizon, stride, target, features, entities, between, dtype, transforms,
            future, static, access, max_gap,
        )  # fmt: skip
        self.transform = as_function("transform", transform)

    def __getitem__(self, index: int) -> Pair:
        if isinstance(index, (slice, list)) or getattr(index, "shape", ()) != ():
            raise InvalidTypeError("one window at a time: take ds.batch(indices) for several")
        number = window_number(index, len(self))
        x, y = self.batch([number])
        return self._transformed(one_of(x, 0), y[0])

    def __getitems__(self, indices: Sequence[int]) -> list[Pair]:
        """Some windows, copied out together: what torch's ``DataLoader`` asks for.

        Its default collation takes them as that one copy.

        Parameters
        ----------
        indices
            Numbers of windows.
        """
        from .._torch import register_windows

        register_windows(WindowPair)
        whole = self.batch(indices)
        x, y = whole
        ones = [one_of(x, place) for place in range(len(y))]
        if self.transform is not None:
            return [self._transformed(*pair) for pair in zip(ones, y, strict=True)]
        pairs: list[WindowPair] = []
        for place, both in enumerate(zip(ones, y.unbind(), strict=True)):
            pair = WindowPair(both)
            pair.batch, pair.place = whole, place
            pairs.append(pair)
        return cast(list[Pair], pairs)

    def batch(self, indices: Rows) -> tuple[Any, torch.Tensor]:
        """Some windows as two tensors, before ``transform``.

        Parameters
        ----------
        indices
            Numbers of windows, a slice or a mask; negative ones count from the end.

        Returns
        -------
        tuple of torch.Tensor
            ``X`` of shape ``(n, window, len(features))``, ``y`` of shape ``(n, horizon)`` or ``(n,
            horizon, len(target))``. With ``future`` or ``static``, ``X`` is a dict of tensors:
            ``"x"`` and, of shape ``(n, horizon, len(future))``, ``"future"``; ``"static"`` ``(n,
            len(static))``.
        """
        from .._torch import as_tensors, hand_over_in_shared_memory

        hand_over_in_shared_memory()
        return as_tensors(*self.arrays(indices))

    def arrays(self, indices: Rows, *, threads: int = 1) -> tuple[Arrays, np.ndarray]:
        """As :meth:`batch`, as numpy arrays.

        Parameters
        ----------
        indices
            Numbers of windows, a slice or a mask.
        threads
            Threads that copy.
        """
        numbers = as_row_numbers(indices, len(self), ("window", "window"))
        return self._arrays(numbers, as_int("threads", threads, 1, _core.MAX_THREADS))

    def will_read(self, indices: Rows) -> None:
        """Have the rows of windows that are soon asked for read into memory; waits for none.

        What loaders do by themselves. Where the rows are in memory it costs little.

        Parameters
        ----------
        indices
            Numbers of windows, a slice or a mask.
        """
        self._windows.will_read(as_row_numbers(indices, len(self), ("window", "window")))

    def _arrays(self, numbers: np.ndarray, threads: int) -> tuple[Arrays, np.ndarray]:
        x, y, future = self._windows.copy(numbers, threads)
        if self._is_one_target:
            y = y[..., 0]
        if not self.future and not self.static:
            return x, y
        parts = {"x": x}
        if self.future:
            parts["future"] = future
        if self.static:
            parts["static"] = self._statics.values[self._windows.locate(numbers)[0]]
        return parts, y

    def _transformed(self, x: Inputs, y: torch.Tensor) -> Pair:
        return cast(Pair, (x, y)) if self.transform is None else self.transform(x, y)

    @property
    def scaler(self) -> Scaler:
        """The scaler of the directory."""
        return Scaler.load(self.path)

    def inverse(
        self,
        y: npt.ArrayLike,
        entity: str | Sequence[str] | None = None,
        *,
        index: int | Sequence[int] | np.ndarray | None = None,
    ) -> np.ndarray:
        """Targets (or predictions of them) as the values that were read.

        Parameters
        ----------
        y
            As the data set gives it, or a batch of such.
        entity
            Where each entity has a scale of its own: whose ``y`` it is, or the name for each of a
            batch.
        index
            With ``transforms``, instead: numbers of the windows that a batch is of
            (``batch.index``), or of the one window.

        Returns
        -------
        numpy.ndarray
            float64, of the same shape.
        """
        values = np.asarray(y)
        if self._is_one_target:
            values = values[..., None]
        if self._steps:
            read = self._undone(values, index)
            return read[..., 0] if self._is_one_target else read
        if index is not None:
            raise InvalidArgumentError("index is of windows with transforms: name the entity")
        read = self.scaler.inverse_transform(values, self.target, entity)
        return read[..., 0] if self._is_one_target else read

    def _undone(
        self, values: np.ndarray, index: int | Sequence[int] | np.ndarray | None
    ) -> np.ndarray:
        if index is None:
            raise InvalidArgumentError(
                "transforms are undone by the numbers of each window: pass index=batch.index"
            )
        one = np.ndim(index) == 0
        numbers = as_row_numbers([index] if one else index, len(self), ("window", "window"))
        shape = (len(numbers), self.horizon, len(self.target))
        if values.shape != (shape[1:] if one else shape):
            raise InvalidArgumentError(
                f"y of {len(numbers)} windows has the shape {values.shape}, not {shape}"
            )
        flat = self._windows.undo(numbers, values.astype(np.float64).ravel().tolist())
        return np.asarray(flat).reshape(values.shape)

    def split(
        self,
        by: str = "time",
        fractions: Mapping[str, float] | None = None,
        *,
        dates: Mapping[str, Time | None] | None = None,
        purge: int = 0,
        seed: int = 0,
    ) -> dict[str, SeriesDataset[Pair]]:
        """Parts that share no row: no window touches two of them.

        Parameters
        ----------
        by
            ``"time"``: earlier rows, later rows, the cuts at the same times for all entities; a
            window that would reach across a cut is in no part. ``"entity"``: whole entities, dealt
            out in random order.
        fractions
            The share of rows (of entities) of each part, in the order of time: ``{"train": 0.7,
            "val": 0.1, "test": 0.2}``.
        dates
            Instead, by time: the time at which each part ends, that of the last being None.
        purge
            Rows of each entity that are left out after every cut, so that what a model saw lies
            further back than neighbouring rows tell; ``purge=window`` is a whole window.
        seed
            Of ``"entity"``.

        Returns
        -------
        dict
            A data set for each part.

        Warns
        -----
        UserWarning
            By time, where the scaler looked at rows that are not of the first part.
        """
        as_choice("by", by, ("time", "entity"))
        purge = as_int("purge", purge, 0)
        if (fractions is None) == (dates is None):
            raise InvalidTypeError("split takes fractions, or dates, one of them")
        if by == "entity":
            if dates is not None or purge:
                raise InvalidArgumentError("dates and purge are of a split by time")
            return split_by_entity(self, fractions, as_int("seed", seed, 0, 2**64 - 1))
        if self._about["time_kind"] == "row":
            raise InvalidArgumentError("this series has no times to split by; build it with time")
        return split_by_time(self, fractions, dates, purge)

    def _part(self, name: str, **changes: object) -> SeriesDataset[Pair]:
        part: SeriesDataset[Pair] = object.__new__(SeriesDataset)
        part.__dict__.update(self.__dict__)
        part.__dict__.update(changes)
        part._open()
        if len(part) == 0:
            raise InvalidArgumentError(
                f"the part {name!r} would have no window: no entity has {self.window} + "
                f"{self.horizon} rows in it"
                + (f" with a purge of {part._purge}" if part._purge else "")
            )
        return part
