"""Which windows of a series directory there are: their rows, entities, times and labels."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypedDict, cast

import numpy as np

from .. import _core
from .._arguments import (
    absolute,
    as_choice,
    as_dtype,
    as_int,
    as_names,
    as_path,
    as_row_numbers,
    shown,
    suggestion,
    without_dimensions,
)
from .._options import ROW_ACCESS, DType, Names, RowAccess, Rows
from ..errors import (
    CorruptDataError,
    InvalidArgumentError,
    InvalidTypeError,
    NoSuchKeyError,
    OutOfRangeError,
)
from ._build import FLOATS, Step, Time, step_as_text, time_as_text
from ._statics import StaticColumns, WindowLabels
from ._transforms import WindowTransform, steps_and_norms

if TYPE_CHECKING:
    import torch

# What a model is given of windows: their rows, or by name these and what else there is.
Arrays: TypeAlias = np.ndarray | dict[str, np.ndarray]
Inputs: TypeAlias = "torch.Tensor | dict[str, torch.Tensor]"
Between: TypeAlias = tuple[Time | None, Time | None]
# The longest step between two rows of a window; "auto", or None for any.
MaxGap: TypeAlias = Step | None


class WindowKeywords(TypedDict, total=False):
    """Arguments of a data set of windows that do not change what these are."""

    stride: int | None
    target: Names | None
    features: Names | None
    entities: Names | None
    between: Between | None
    dtype: DType
    transforms: Sequence[WindowTransform]
    access: RowAccess
    max_gap: MaxGap


class SeriesWindows:
    """The windows of a directory, by number; what they hold is for those who derive from it.

    Parameters are those of :class:`SeriesDataset`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        window: int | None,
        horizon: int | None,
        stride: int | None,
        target: Names | None,
        features: Names | None,
        entities: Names | None,
        between: Between | None,
        dtype: DType,
        transforms: Sequence[WindowTransform],
        future: Names | None,
        static: Names | None,
        access: RowAccess,
        max_gap: MaxGap,
    ) -> None:
        name = as_path("path", path)
        self.path = absolute(name)
        self.access = as_choice("access", access, ROW_ACCESS)
        self._rows = _core.open_series_rows(self.path, self.access)
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
        self.future = [] if future is None else self._known("future", future)
        self._is_one_target = isinstance(target, str)
        self.target = self._targets(target)
        self.dtype = as_dtype("dtype", dtype, FLOATS)
        self.transforms = transforms
        self._steps, self._norms = steps_and_norms(transforms, list(about["features"]))
        if not transforms:
            self._steps, self._norms = [], []
        self._entities = self._entity_numbers(entities)
        self._between = self._bounds(between)
        self.max_gap = max_gap
        self._gap_rule = self._longest_step(max_gap)
        self._purge = 0
        self.static = [] if static is None else self._known_static(static)
        self._open()
        self._say_what_is_short()

    def _known(self, argument: str, names: Names) -> list[str]:
        found = as_names(argument, names)
        for name in found:
            if name not in self._about["features"]:
                raise NoSuchKeyError(
                    f"{argument}: no feature {name!r}{suggestion(name, self._about['features'])}"
                )
        if not found:
            raise InvalidArgumentError(f"{argument} must name at least one feature")
        return found

    def _targets(self, target: Names | None) -> list[str]:
        if target is None:
            names = [n for n in list(self._about["target"]) or self.features]
            if not self._about["target"]:
                names = [name for name in names if name not in self.future]
            if not names:
                raise InvalidArgumentError("future names every feature, so that none is a target")
        else:
            names = self._known("target", target)
        for name in self.future:
            if name in names:
                raise InvalidArgumentError(
                    f"future: {name!r} is a target, and a model that is given what it is to "
                    "predict learns nothing"
                )
        return names

    def _known_static(self, names: Names) -> list[str]:
        known = list(self._about["static"])
        found = as_names("static", names)
        for name in found:
            if name not in known:
                raise NoSuchKeyError(
                    f"static: no static column {name!r}{suggestion(name, known)}"
                    + ("" if known else "; the series was built without (build_series, static)")
                )
        if len(set(found)) != len(found) or not found:
            raise InvalidArgumentError("static must name columns, each once")
        return found

    def _entity_numbers(self, entities: Names | None) -> np.ndarray:
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

    def _bounds(self, between: Between | None) -> tuple[int | None, int | None]:
        if between is None:
            return None, None
        if not isinstance(between, Sequence) or isinstance(between, str) or len(between) != 2:
            raise InvalidTypeError(f"between must be (first, end), not {shown(between)}")
        first, end = (None if t is None else self._time("between", t) for t in between)
        if first is not None and end is not None and first >= end:
            raise InvalidArgumentError(f"between must rise: {shown(between)}")
        return first, end

    def _longest_step(self, max_gap: MaxGap) -> tuple[bool, int | None]:
        """Whether gaps split the rows, and which steps are gaps: None for the automatic rule."""
        if max_gap is None or (isinstance(max_gap, str) and max_gap == "auto"):
            return max_gap is not None, None
        if self._about["time_kind"] == "row":
            raise InvalidArgumentError("max_gap is of times, and this series has none")
        return True, int(self._rows.parse_step(step_as_text("max_gap", max_gap), "max_gap"))

    def _time(self, argument: str, value: Time) -> int:
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
            [columns[name] for name in self.future],
            self._entities,
            self._between[0],
            self._between[1],
            self._purge,
            *self._gap_rule,
            self.dtype,
            self._steps,
            self._norms,
        )
        self.n_short, self.n_gaps = self._windows.n_short, self._windows.n_gaps
        if not hasattr(self, "_statics"):
            stored = dict(zip(self._about["static"], self._rows.statics(), strict=True))
            self._statics = StaticColumns(
                self.static, [stored[name] for name in self.static], self.dtype
            )

    def _say_what_is_short(self) -> None:
        rows = f"{self.window} + {self.horizon} rows"
        if len(self) == 0:
            raise InvalidArgumentError(
                f"no entity has the {rows} of a window"
                + ("" if self._between == (None, None) else f" between {self._between_text()}")
                + self._without_gap_text()
                + "; take a shorter window or horizon"
            )
        if self.n_short and self._between == (None, None):
            warnings.warn(
                f"{self.n_short} of {len(self._entities)} entities have less than the {rows} of a "
                f"window{self._without_gap_text()}, and give none",
                UserWarning,
                stacklevel=4,
            )

    def _without_gap_text(self) -> str:
        return " without a gap (max_gap)" if self.n_gaps else ""

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
        rows = _core.open_series_rows(self.path, self.access)
        about = rows.describe()
        if (about["fingerprint"], about["n_rows"]) != (
            self._about["fingerprint"], self._about["n_rows"],
        ):  # fmt: skip
            raise CorruptDataError(
                f"{self.path}: holds another series than the one this data set was made of"
            )
        self._rows = rows
        self._open()

    def __getstate__(self) -> dict[str, object]:
        return {
            k: v for k, v in self.__dict__.items() if k not in ("_rows", "_windows", "_statics")
        }

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self.open_memmap()

    def __len__(self) -> int:
        return int(self._windows.size)

    def _located(self, indices: Rows) -> tuple[np.ndarray, np.ndarray]:
        numbers = as_row_numbers(indices, len(self), ("window", "window"))
        entities, rows = self._windows.locate(numbers)
        return entities, rows

    def _times(self, indices: Rows) -> np.ndarray:
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
        number = window_number(index, len(self))
        return str(self._rows.entity_name(int(self._located([number])[0][0])))

    def time_of(self, index: int) -> np.datetime64 | np.int64:
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
        number = window_number(index, len(self))
        return cast("np.datetime64 | np.int64", self._times([number])[0])

    def obs_of(self, indices: Rows) -> dict[str, np.ndarray]:
        """Entity and time of windows.

        Parameters
        ----------
        indices
            Numbers of windows, a slice or a mask.

        Returns
        -------
        dict of numpy.ndarray
            ``"entity"``: numbers in the directory, int64; ``"time"``: as :meth:`time_of`; and each
            of ``static`` by its name: float64, or texts (None where there is none).
        """
        entities = self._located(indices)[0]
        statics = {name: self._statics.raw(name, entities) for name in self.static}
        return {**statics, "entity": entities, "time": self._times(indices)}

    def numbers_of(self, obs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What :meth:`obs_of` gave, as numbers that a tensor holds.

        Parameters
        ----------
        obs
            Of some windows: texts become codes (:attr:`categories`, -1 where there is none), dates
            nanoseconds since 1970.
        """
        codes = {name: self._statics.codes(name, obs["entity"]) for name in self.categories}
        numbers = {name: codes.get(name, values) for name, values in obs.items()}
        return {**numbers, "time": obs["time"].view(np.int64)}

    @property
    def obs(self) -> Mapping[str, np.ndarray]:
        """Labels of all windows, for strategies: ``label_key="entity"``, or one of ``static``.

        Strategies take O(entities) memory for them; a column that is asked for, O(windows).
        """
        entities, counts = self._windows.runs()
        statics = {name: self._statics.raw(name, entities) for name in self.static}
        return WindowLabels({**statics, "entity": entities}, counts)

    @property
    def categories(self) -> dict[str, list[str]]:
        """Of each static column of texts: the texts by their codes."""
        return {name: list(texts) for name, texts in self._statics.categories.items()}

    @property
    def window_bytes(self) -> int:
        """Bytes of one window, ``y`` included."""
        n = self.window * len(self.features)
        n += self.horizon * (len(self.target) + len(self.future)) + len(self.static)
        return n * np.dtype(self.dtype).itemsize

    def identity(self) -> tuple[object, ...]:
        """What the numbers of windows, and what is in them, depend on."""
        return (
            self._about["fingerprint"], self._about["n_rows"], self.window, self.horizon,
            self.stride, self.features, self.target, self._between, self._purge,
            self._entities.tobytes(), self._steps, self._norms, self.future, self.static,
            self._gap_rule,
        )  # fmt: skip


def window_number(index: object, n: int) -> int:
    """The number of one of n windows; negative ones count from the end."""
    index = without_dimensions(index)
    is_truth = isinstance(index, (bool, np.bool_))
    if isinstance(index, (int, np.integer)) and not is_truth and not -n <= index < n:
        raise OutOfRangeError(f"window {index} is outside the {n} of this data set")
    return as_int("index", index, -n, n - 1)
