"""How stored values were made of those that were read, and back."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from .._arguments import as_names, as_path, shown, suggestion
from .._json_file import parse_json
from ..errors import CorruptDataError, InvalidArgumentError, InvalidTypeError, NoSuchKeyError

_NUMBERS = ("center", "scale_by", "mean", "variance", "min", "max")
_QUARTILES = ("lower_quartile", "upper_quartile")


class Scaler:
    """``(value - center) / scale_by`` for each feature: what ``scaler.json`` holds.

    Parameters
    ----------
    fields
        The object of ``scaler.json`` (docs/format/series.md); :meth:`load` and
        :meth:`from_sklearn` make it.

    Attributes
    ----------
    kind
        ``"standard"``, ``"minmax"``, ``"robust"`` or ``"none"``.
    scale
        ``"global"``, or ``"entity"``: each entity has numbers of its own.
    features
        Names, in the order of the columns.
    entities
        Names, of ``scale="entity"``; else empty.
    fit_until
        The time before which rows were looked at; None for all.
    fit_mask, fit_last_time
        The column that marked the rows that were looked at, None for all; and the time of the last
        of them, None where it is not known.
    """

    def __init__(self, fields: dict[str, Any]) -> None:
        try:
            if fields["format"] != "cellfeed-scaler" or fields["version"] != 1:
                raise CorruptDataError("not a scaler of version 1")
            self.kind: str = fields["kind"]
            self.scale: str = fields["scale"]
            self.features: list[str] = list(fields["features"])
            self.entities: list[str] = list(fields.get("entities", ()))
            self.fit_until: str | None = fields["fit_until"]
            self.fit_mask: str | None = fields.get("fit_mask")
            self.fit_last_time: str | None = fields.get("fit_last_time")
            names = (*_NUMBERS, *_QUARTILES) if self.kind == "robust" else _NUMBERS
            arrays = {name: np.array(fields[name], np.float64) for name in names}
            arrays["n"] = np.array(fields["n"], np.int64)
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptDataError(f"not a scaler: {error}") from error
        shape = (len(self.entities), len(self.features))
        for name, array in arrays.items():
            if array.shape != (shape if self.scale == "entity" else shape[1:]):
                raise CorruptDataError(f"not a scaler: {name!r} has the shape {array.shape}")
        if not (np.isfinite(arrays["center"]).all() and np.isfinite(arrays["scale_by"]).all()):
            raise CorruptDataError("not a scaler: its numbers are not finite")
        if (arrays["scale_by"] == 0).any():
            raise CorruptDataError("not a scaler: a scale is 0")
        self._arrays = arrays

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Scaler:
        """The scaler of a series directory, or of a ``scaler.json``.

        Parameters
        ----------
        path
            Directory or file, also of a bucket.
        """
        name, text = _core.series_scaler_text(as_path("path", path))
        return cls(parse_json(text, str(name), "scaler"))

    @classmethod
    def from_sklearn(cls, model: Any, features: Sequence[str] | None = None) -> Scaler:
        """A fitted ``StandardScaler``, ``MinMaxScaler`` or ``RobustScaler`` of scikit-learn.

        Parameters
        ----------
        model
            Fitted. A ``MinMaxScaler`` must have the range (0, 1).
        features
            Names of its columns; by default those it was fitted with.
        """
        names = features if features is not None else getattr(model, "feature_names_in_", None)
        if names is None:
            raise InvalidArgumentError(
                "features must name the columns that the model was fitted on"
            )
        names = as_names("features", list(names))
        kind = _kind_of(model)
        center, scale_by = _numbers_of(model, kind)
        if len(names) != len(center):
            raise InvalidArgumentError(
                f"the model was fitted on {len(center)} columns, and features names {len(names)}"
            )
        n = np.broadcast_to(np.asarray(getattr(model, "n_samples_seen_", 0)), center.shape)
        unknown = np.zeros(len(center))
        variance = getattr(model, "var_", None)
        spread = scale_by**2 if variance is None else np.asarray(variance)
        quartiles = {
            "lower_quartile": center - scale_by / 2,
            "upper_quartile": center + scale_by / 2,
        }
        fields = {
            "format": "cellfeed-scaler", "version": 1, "kind": kind, "scale": "global",
            "fit_until": None, "features": names, "center": center, "scale_by": scale_by,
            "n": n.astype(np.int64), "mean": center if kind == "standard" else unknown,
            "variance": spread if kind == "standard" else unknown,
            "min": getattr(model, "data_min_", unknown),
            "max": getattr(model, "data_max_", unknown),
        }  # fmt: skip
        return cls(fields | (quartiles if kind == "robust" else {}))

    def to_json(self) -> str:
        """The text of ``scaler.json``."""
        fields: dict[str, Any] = {
            "format": "cellfeed-scaler", "version": 1, "kind": self.kind, "scale": self.scale,
            "fit_until": self.fit_until, "fit_mask": self.fit_mask,
            "fit_last_time": self.fit_last_time, "features": self.features,
        }  # fmt: skip
        if self.scale == "entity":
            fields["entities"] = self.entities
        nothing: Any = None  # for statistics beyond float64, as in the file
        arrays = {
            name: np.where(np.isfinite(array), array.astype(object), nothing).tolist()
            for name, array in self._arrays.items()
        }
        return json.dumps(fields | arrays, indent=1)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write ``scaler.json``; a file that is there is replaced.

        Parameters
        ----------
        path
            The file.
        """
        _core.write_file(as_path("path", path), (self.to_json() + "\n").encode())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scaler) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        of = f" of {len(self.entities)} entities" if self.scale == "entity" else ""
        return f"Scaler({self.kind!r}, {len(self.features)} features{of})"

    def _set(self, name: str, entity: str | Sequence[str] | None) -> np.ndarray:
        array = self._arrays[name]
        if self.scale != "entity":
            return array
        if entity is None:
            raise InvalidArgumentError("this scaler has numbers of each entity: name the entity")
        names = np.atleast_1d(np.asarray(entity))
        numbers = {known: i for i, known in enumerate(self.entities)}
        for wanted in names.tolist():
            if wanted not in numbers:
                raise NoSuchKeyError(
                    f"no entity {shown(wanted)}{suggestion(wanted, self.entities)}"
                )
        rows = array[[numbers[wanted] for wanted in names.tolist()]]
        return rows[0] if np.ndim(entity) == 0 else rows

    def parameters(
        self,
        features: str | Sequence[str] | None = None,
        entity: str | Sequence[str] | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """``center`` and ``scale_by`` of some features.

        Parameters
        ----------
        features
            A name or a list of names; all by default.
        entity
            Of ``scale="entity"``: a name, or a list of names, which adds an axis in front.

        Returns
        -------
        tuple of numpy.ndarray
            float64, of shape ``(len(features),)``, or ``(len(entity), len(features))``.
        """
        columns = list(range(len(self.features)))
        if features is not None:
            columns = []
            for name in as_names("features", features):
                if name not in self.features:
                    raise NoSuchKeyError(f"no feature {name!r}{suggestion(name, self.features)}")
                columns.append(self.features.index(name))
        return (
            self._set("center", entity)[..., columns],
            self._set("scale_by", entity)[..., columns],
        )

    def transform(
        self,
        values: npt.ArrayLike,
        features: str | Sequence[str] | None = None,
        entity: str | Sequence[str] | None = None,
    ) -> np.ndarray:
        """Values as they are stored.

        Parameters
        ----------
        values
            Array whose last axis is the features.
        features, entity
            As for :meth:`parameters`.

        Returns
        -------
        numpy.ndarray
            float64, of the same shape.
        """
        center, scale_by = self._fitting(values, features, entity)
        return np.asarray((np.asarray(values, np.float64) - center) / scale_by)

    def inverse_transform(
        self,
        values: npt.ArrayLike,
        features: str | Sequence[str] | None = None,
        entity: str | Sequence[str] | None = None,
    ) -> np.ndarray:
        """Stored values as they were read.

        Parameters
        ----------
        values
            Array whose last axis is the features.
        features, entity
            As for :meth:`parameters`.

        Returns
        -------
        numpy.ndarray
            float64, of the same shape.
        """
        center, scale_by = self._fitting(values, features, entity)
        return np.asarray(np.asarray(values, np.float64) * scale_by + center)

    def _fitting(
        self,
        values: npt.ArrayLike,
        features: str | Sequence[str] | None,
        entity: str | Sequence[str] | None,
    ) -> tuple[np.ndarray, np.ndarray]:
        center, scale_by = self.parameters(features, entity)
        shape = np.shape(values)
        if not shape or shape[-1] != center.shape[-1]:
            raise InvalidArgumentError(
                f"the last axis must be the {center.shape[-1]} features, and the shape is {shape}"
            )
        if center.ndim == 2:
            # One entity for each element of the first axis.
            if len(shape) < 2 or shape[0] != len(center):
                raise InvalidArgumentError(
                    f"{len(center)} entities are named for values of the shape {shape}"
                )
            axes = (len(center), *[1] * (len(shape) - 2), center.shape[-1])
            center, scale_by = center.reshape(axes), scale_by.reshape(axes)
        return center, scale_by

    def to_sklearn(self, entity: str | None = None) -> Any:
        """A fitted scaler of scikit-learn that does the same.

        Parameters
        ----------
        entity
            Of ``scale="entity"``, whose.

        Returns
        -------
        StandardScaler, MinMaxScaler or RobustScaler
            For ``kind="none"``, a ``StandardScaler`` with mean 0 and scale 1.
        """
        from sklearn import preprocessing

        center, scale_by = self.parameters(entity=entity)
        if self.kind == "minmax":
            model = preprocessing.MinMaxScaler()
            model.data_min_, model.data_max_ = self._set("min", entity), self._set("max", entity)
            model.data_range_ = model.data_max_ - model.data_min_
            model.scale_ = 1 / scale_by
            model.min_ = -center / scale_by
        elif self.kind == "robust":
            model = preprocessing.RobustScaler()
            model.center_, model.scale_ = center, scale_by
        else:
            model = preprocessing.StandardScaler()
            model.mean_, model.scale_ = center, scale_by
            model.var_ = self._set("variance", entity)
        counts = self._set("n", entity)
        if self.kind != "robust":
            model.n_samples_seen_ = int(counts[0]) if (counts == counts[0]).all() else counts
        model.n_features_in_ = len(self.features)
        model.feature_names_in_ = np.array(self.features, dtype=object)
        return model


def _kind_of(model: Any) -> str:
    kinds = {"StandardScaler": "standard", "MinMaxScaler": "minmax", "RobustScaler": "robust"}
    kind = kinds.get(type(model).__name__)
    if kind is None or not type(model).__module__.startswith("sklearn."):
        raise InvalidTypeError(
            "model must be a StandardScaler, MinMaxScaler or RobustScaler of scikit-learn, not "
            f"{shown(model)}"
        )
    if not hasattr(model, "scale_"):
        raise InvalidArgumentError(f"the {type(model).__name__} is not fitted")
    if kind == "minmax" and tuple(model.feature_range) != (0, 1):
        raise InvalidArgumentError("a MinMaxScaler must have the feature_range (0, 1)")
    if kind == "minmax" and model.clip:
        raise InvalidArgumentError("a MinMaxScaler that clips cannot be undone: pass clip=False")
    return kind


def _numbers_of(model: Any, kind: str) -> tuple[np.ndarray, np.ndarray]:
    n = int(model.n_features_in_)
    if kind == "minmax":
        return np.asarray(model.data_min_, np.float64), 1 / np.asarray(model.scale_, np.float64)
    center = model.mean_ if kind == "standard" else model.center_
    scale_by = model.scale_
    if center is None or (kind == "standard" and not model.with_mean):
        center = np.zeros(n)
    if scale_by is None:
        scale_by = np.ones(n)
    return np.asarray(center, np.float64), np.asarray(scale_by, np.float64)
