"""Windows over the rows of a series directory, as a map-style data set."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _core
from .._arguments import (
    as_choice,
    as_dtype,
    as_float,
    as_function,
    as_int,
    as_names,
    as_path,
    as_row_numbers,
    shown,
    suggestion,
)
from ..errors import CorruptDataError, InvalidArgumentError, InvalidTypeError, NoSuchKeyError
from ._build import FLOATS, time_as_text
from ._scaler import Scaler
from ._transforms import WindowTransform, steps_and_norms

if TYPE_CHECKING:
    from torch.utils.data import Dataset

    MapStyle = Dataset[tuple[Any, Any]]
else:
    MapStyle = object  # a map-style data set is what has a length and items


class WindowPair(tuple[Any, Any]):
    """One ``(X, y)`` of a batch that was copied out together."""

    batch: tuple[Any, Any] | None = None
    place: int = 0


class SeriesDataset(MapStyle):
    """Windows of a series directory: ``ds[i]`` is ``(X, y)``.

    ``X`` holds ``window`` rows of features, ``y`` the targets of the ``horizon`` rows after them,
    all of one entity. Windows are counted entity by entity, in the order of time; none crosses from
    one entity to another. The rows stay on disk, mapped: a process holds a few numbers an entity,
    however many windows there are.

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
        len(target))``. By default the directory's, else all features of ``X``.
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

    Attributes
    ----------
    n_short
        Entities that are too short for any window.
    window, horizon, stride, features, target
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

    def __init__(
        self,
        path: str | os.PathLike[str],
        window: int | None = None,
        horizon: int | None = None,
        stride: int | None = None,
        target: str | Sequence[str] | None = None,
        features: str | Sequence[str] | None = None,
        entities: str | Sequence[str] | None = None,
        between: tuple[Any, Any] | None = None,
        dtype: Any = "float32",
        transform: Callable[[Any, Any], tuple[Any, Any]] | None = None,
        transforms: Sequence[WindowTransform] = (),
    ) -> None:
        self.path = os.path.abspath(as_path("path", path))
        self._rows = _core.open_series_rows(self.path)
        about = self._rows.describe()
        self._about = about
        if window is None and about["window"] == 0:
            raise InvalidTypeError("window must be a number of rows: this series has no default")
        self.window = about["window"] if window is None else as_int("window", window, 1)
        self.horizon = about["horizon"] if horizon is None else as_int("horizon", horizon, 1)
        self.stride = about["stride"] if stride is None else as_int("stride", stride, 1)
        self.features = (
            list(about["features"]) if features is None else self._known("features", features)
        )
        self._is_one_target = isinstance(target, str)
        if target is None:
            self.target = list(about["target"]) or list(self.features)
        else:
            self.target = self._known("target", target)
        self.dtype = as_choice("dtype", as_dtype("dtype", dtype), FLOATS)
        self.transform = as_function("transform", transform)
        self.transforms = transforms
        self._steps, self._norms = steps_and_norms(transforms, list(about["features"]))
        if not transforms:
            self._steps, self._norms = [], []
        self._entities = self._entity_numbers(entities)
        self._between = self._bounds(between)
        self._purge = 0
        self._open()
        self._say_what_is_short()

    def _known(self, argument: str, names: Any) -> list[str]:
        found = as_names(argument, names)
        for name in found:
            if name not in self._about["features"]:
                raise NoSuchKeyError(
                    f"{argument}: no feature {name!r}{suggestion(name, self._about['features'])}"
                )
        if not found:
            raise InvalidArgumentError(f"{argument} must name at least one feature")
        return found

    def _entity_numbers(self, entities: Any) -> np.ndarray:
        if entities is None:
            return np.arange(self._about["n_entities"], dtype=np.int64)
        names = self._rows.entity_names()
        numbers = {name: i for i, name in enumerate(names)}
        wanted = as_names("entities", entities)
        for name in wanted:
            if name not in numbers:
                raise NoSuchKeyError(f"no entity {name!r}{suggestion(name, names)}")
        if len(set(wanted)) != len(wanted):
            raise InvalidArgumentError(
                "entities names one twice, and its windows would count twice"
            )
        return np.array([numbers[name] for name in wanted], dtype=np.int64)

    def _bounds(self, between: Any) -> tuple[int | None, int | None]:
        if between is None:
            return None, None
        if not isinstance(between, Sequence) or isinstance(between, str) or len(between) != 2:
            raise InvalidTypeError(f"between must be (first, end), not {shown(between)}")
        first, end = (None if t is None else self._time("between", t) for t in between)
        if first is not None and end is not None and first >= end:
            raise InvalidArgumentError(f"between must rise: {shown(between)}")
        return first, end

    def _time(self, argument: str, value: Any) -> int:
        return int(self._rows.parse_time(time_as_text(argument, value), argument))

    def _open(self) -> None:
        columns = {name: i for i, name in enumerate(self._about["features"])}
        self._windows = _core.make_series_windows(
            self._rows,
            self.window,
            self.horizon,
            self.stride,
            [columns[name] for name in self.features],
            [columns[name] for name in self.target],
            self._entities,
            self._between[0],
            self._between[1],
            self._purge,
            self.dtype,
            self._steps,
            self._norms,
        )
        self.n_short = self._windows.n_short

    def _say_what_is_short(self) -> None:
        rows = f"{self.window} + {self.horizon} rows"
        if len(self) == 0:
            raise InvalidArgumentError(
                f"no entity has the {rows} of a window"
                + ("" if self._between == (None, None) else f" between {self._between_text()}")
                + "; take a shorter window or horizon"
            )
        if self.n_short and self._between == (None, None):
            warnings.warn(
                f"{self.n_short} of {len(self._entities)} entities have less than the {rows} of a "
                "window, and give none",
                UserWarning,
                stacklevel=3,
            )

    def _between_text(self) -> str:
        first, end = (
            "any time" if t is None else str(self._as_times(np.array([t]))[0])
            for t in self._between
        )
        return f"{first} and {end}"

    def open_memmap(self) -> None:
        """Open the files again: for ``worker_init_fn``, where nothing is shared with the parent.

        Workers need not call it: maps that a forked process inherits are safe to read.
        """
        rows = _core.open_series_rows(self.path)
        about = rows.describe()
        if (about["fingerprint"], about["n_rows"]) != (
            self._about["fingerprint"], self._about["n_rows"],
        ):  # fmt: skip
            raise CorruptDataError(
                f"{self.path}: holds another series than the one this data set was made of"
            )
        self._rows = rows
        self._open()

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_rows", "_windows")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.open_memmap()

    def __len__(self) -> int:
        return int(self._windows.size)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        if isinstance(index, (slice, list, np.ndarray)):
            raise InvalidTypeError("one window at a time: take ds.batch(indices) for several")
        n = len(self)
        number = as_int("index", index, -n, n - 1) if _is_in(index, n) else _refuse(index, n)
        x, y = self.batch([number])
        return self._transformed(x[0], y[0])

    def __getitems__(self, indices: Sequence[int]) -> list[tuple[Any, Any]]:
        """Some windows, copied out together: what torch's ``DataLoader`` asks for.

        Its default collation takes them as that one copy.

        Parameters
        ----------
        indices
            Numbers of windows.
        """
        from ..torch import register_windows

        register_windows(WindowPair)
        whole = self.batch(indices)
        x, y = whole
        if self.transform is not None:
            return [self._transformed(*pair) for pair in zip(x, y, strict=True)]
        pairs: list[tuple[Any, Any]] = []
        for place, both in enumerate(zip(x.unbind(), y.unbind(), strict=True)):
            pair = WindowPair(both)
            pair.batch, pair.place = whole, place
            pairs.append(pair)
        return pairs

    def batch(self, indices: Any) -> tuple[Any, Any]:
        """Some windows as two tensors, before ``transform``.

        Parameters
        ----------
        indices
            Numbers of windows, a slice or a mask; negative ones count from the end.

        Returns
        -------
        tuple of torch.Tensor
            ``X`` of shape ``(n, window, len(features))``, ``y`` of shape ``(n, horizon)`` or ``(n,
            horizon, len(target))``.
        """
        from ..torch import as_tensors

        x, y = self.arrays(indices)
        return as_tensors(x, y)

    def arrays(self, indices: Any, *, threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """As :meth:`batch`, as numpy arrays.

        Parameters
        ----------
        indices
            Numbers of windows, a slice or a mask.
        threads
            Threads that copy.
        """
        numbers = as_row_numbers(indices, len(self), ("window", "window"))
        x, y = self._windows.copy(numbers, as_int("threads", threads, 1, _core.MAX_THREADS))
        return x, y[..., 0] if self._is_one_target else y

    def _transformed(self, x: Any, y: Any) -> tuple[Any, Any]:
        return (x, y) if self.transform is None else self.transform(x, y)

    def _located(self, indices: Any) -> tuple[np.ndarray, np.ndarray]:
        numbers = as_row_numbers(indices, len(self), ("window", "window"))
        entities, rows = self._windows.locate(numbers)
        return entities, rows

    def _times(self, indices: Any) -> np.ndarray:
        numbers = as_row_numbers(indices, len(self), ("window", "window"))
        return self._as_times(self._windows.times(numbers))

    def _as_times(self, times: np.ndarray) -> np.ndarray:
        return times.view("datetime64[ns]") if self._has_clock else times

    @property
    def _has_clock(self) -> bool:
        return self._about["time_kind"] in ("naive", "zoned")

    def entity_of(self, index: int) -> str:
        """The name of the entity that a window is of.

        Parameters
        ----------
        index
            Number of the window.
        """
        n = len(self)
        number = as_int("index", index, -n, n - 1) if _is_in(index, n) else _refuse(index, n)
        return str(self._rows.entity_name(int(self._located([number])[0][0])))

    def time_of(self, index: int) -> Any:
        """The time of the last row of a window's ``X``: when it is known.

        Parameters
        ----------
        index
            Number of the window.

        Returns
        -------
        numpy.datetime64 or numpy.int64
            In UTC where the series names zones.
        """
        n = len(self)
        number = as_int("index", index, -n, n - 1) if _is_in(index, n) else _refuse(index, n)
        return self._times([number])[0]

    def obs_of(self, indices: Any) -> dict[str, np.ndarray]:
        """Entity and time of windows.

        Parameters
        ----------
        indices
            Numbers of windows, a slice or a mask.

        Returns
        -------
        dict of numpy.ndarray
            ``"entity"``: numbers in the directory, int64; ``"time"``: as :meth:`time_of`.
        """
        return {"entity": self._located(indices)[0], "time": self._times(indices)}

    @property
    def obs(self) -> dict[str, np.ndarray]:
        """Labels of all windows, for strategies: ``label_key="entity"``. O(windows) memory."""
        return {"entity": self._located(slice(None))[0]}

    @property
    def window_bytes(self) -> int:
        """Bytes of one window, ``y`` included."""
        n = self.window * len(self.features) + self.horizon * len(self.target)
        return n * np.dtype(self.dtype).itemsize

    def identity(self) -> tuple[Any, ...]:
        """What the numbers of windows, and what is in them, depend on."""
        return (
            self._about["fingerprint"], self._about["n_rows"], self.window, self.horizon,
            self.stride, self.features, self.target, self._between, self._purge,
            self._entities.tobytes(), self._steps, self._norms,
        )  # fmt: skip

    @property
    def scaler(self) -> Scaler:
        """The scaler of the directory."""
        return Scaler.load(self.path)

    def inverse(self, y: Any, entity: Any = None, *, index: Any = None) -> np.ndarray:
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

    def _undone(self, values: np.ndarray, index: Any) -> np.ndarray:
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
        dates: Mapping[str, Any] | None = None,
        purge: int = 0,
        seed: int = 0,
    ) -> dict[str, SeriesDataset]:
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
            return self._split_by_entity(_shares(fractions), as_int("seed", seed, 0, 2**64 - 1))
        if self._about["time_kind"] == "row":
            raise InvalidArgumentError("this series has no times to split by; build it with time")
        ends = self._cuts(_shares(fractions)) if dates is None else self._dates(dates)
        return self._split_by_time(ends, purge)

    def _part(self, name: str, **changes: Any) -> SeriesDataset:
        part = object.__new__(SeriesDataset)
        part.__dict__.update(self.__dict__)
        part.__dict__.update(changes)
        part._open()
        if len(part) == 0:
            raise InvalidArgumentError(
                f"the part {name!r} would have no window: no entity has {self.window} + "
                f"{self.horizon} rows in it"
            )
        return part

    def _split_by_entity(self, shares: dict[str, float], seed: int) -> dict[str, SeriesDataset]:
        n = len(self._entities)
        order = _core.make_block_shuffling(n, 1, None, False).order(seed, 0, 0, n)
        ends = np.round(np.cumsum([0.0, *shares.values()]) * n).astype(int)
        parts = {}
        for name, (begin, end) in zip(shares, pairwise(ends.tolist()), strict=True):
            parts[name] = self._part(name, _entities=self._entities[np.sort(order[begin:end])])
        return parts

    def _split_by_time(self, ends: dict[str, int | None], purge: int) -> dict[str, SeriesDataset]:
        first, last = self._between
        parts, begin = {}, first
        cut = next(iter(ends.values()))
        self._warn_of_leaks(cut)
        for number, (name, end) in enumerate(ends.items()):
            until = last if end is None else end if last is None else min(end, last)
            changes = {"_between": (begin, until), "_purge": purge if number else self._purge}
            parts[name] = self._part(name, **changes)
            begin = until
        return parts

    def _warn_of_leaks(self, cut: int | None) -> None:
        if self._about["scaler"] == "none" or cut is None:
            return
        fit_until = self._about["fit_until"]
        if fit_until is None or self._time("fit_until", fit_until) > cut:
            seen = "all rows" if fit_until is None else f"rows until {fit_until}"
            at = self._as_times(np.array([cut]))[0]
            warnings.warn(
                f"the scaler looked at {seen}, also at those after {at}, so that later values leak "
                f"into training; build the series with fit_until={str(at)!r}",
                UserWarning,
                stacklevel=4,
            )

    def _dates(self, dates: Any) -> dict[str, int | None]:
        if not isinstance(dates, Mapping) or len(dates) < 2:
            raise InvalidTypeError(
                "dates must be a dict such as {'train': '2020-01-01', 'test': None}, not "
                f"{shown(dates)}"
            )
        *earlier, (last_name, last) = dates.items()
        if last is not None:
            raise InvalidArgumentError(f"the last part, {last_name!r}, must end with None")
        ends: dict[str, int | None] = {
            str(name): self._time(f"the end of {name!r}", end) for name, end in earlier
        }
        cuts = list(ends.values())
        if any(a >= b for a, b in pairwise(cuts)):  # type: ignore[operator]
            raise InvalidArgumentError(f"dates must rise: {shown(dict(dates))}")
        return ends | {str(last_name): None}

    def _first_time_with(self, n_rows: int, low: int, high: int) -> int:
        """The first time before which there are that many rows."""
        while low < high:
            middle = (low + high) // 2
            if self._rows.rows_before(self._entities, middle) < n_rows:
                low = middle + 1
            else:
                high = middle
        return low

    def _cuts(self, shares: dict[str, float]) -> dict[str, int | None]:
        """The times at which so many of the rows, of all entities together, are over."""
        first, last = self._between
        low = _MIN_TIME if first is None else first
        high = _MAX_TIME if last is None else last
        before = self._rows.rows_before(self._entities, low)
        total = self._rows.rows_before(self._entities, high) - before
        ends: dict[str, int | None] = {}
        share = 0.0
        for name in list(shares)[:-1]:
            share += shares[name]
            wanted = before + round(share * total)
            ends[name] = self._first_time_with(wanted, low, high)
        return ends | {list(shares)[-1]: None}


_MIN_TIME, _MAX_TIME = -(2**63) + 1, 2**63 - 1


def _is_in(index: Any, n: int) -> bool:
    is_number = isinstance(index, (int, np.integer)) and not isinstance(index, (bool, np.bool_))
    return not is_number or -n <= index < n


def _refuse(index: Any, n: int) -> int:
    from ..errors import OutOfRangeError

    raise OutOfRangeError(f"window {index} is outside the {n} of this data set")


def _shares(fractions: Any) -> dict[str, float]:
    if not isinstance(fractions, Mapping) or len(fractions) < 2:
        raise InvalidTypeError(
            f"fractions must be a dict such as {{'train': 0.8, 'val': 0.2}}, not {shown(fractions)}"
        )
    shares = {str(k): as_float(f"the share of {k!r}", v) for k, v in fractions.items()}
    if min(shares.values()) <= 0 or abs(sum(shares.values()) - 1) > 1e-6:
        raise InvalidArgumentError(
            f"fractions must be above 0 and sum to 1: {shown(dict(fractions))}"
        )
    return shares
