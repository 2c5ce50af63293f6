"""What is done to the values of windows as they are cut, by the core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from .._arguments import as_choice, as_names, shown, suggestion
from ..errors import InvalidArgumentError, InvalidTypeError, NoSuchKeyError

NORMS = ("zscore", "last", "minmax")


class WindowTransform:
    """Base of the transforms of windows.

    Parameters
    ----------
    kind
        What is done.
    features
        Which features; all by default.
    """

    _is_step = False

    def __init__(self, kind: str, features: str | Sequence[str] | None = None) -> None:
        self.kind = kind
        self.features = None if features is None else as_names("features", features)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.kind!r}, features={self.features!r})"

    def __eq__(self, other: object) -> bool:
        return repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


class WindowNorm(WindowTransform):
    """Scale each window by its own numbers: those of the rows of ``X``, never of ``y``.

    ``"zscore"``: (v - mean) / standard deviation (of the population); ``"last"``: v - the last
    value of ``X``; ``"minmax"``: (v - min) / (max - min). Where all values are the same, they are
    divided by 1. Missing values are passed over. ``y`` is scaled by the numbers of its feature in
    ``X``, and is NaN where all of these are missing.

    Parameters
    ----------
    kind
        Which of these.
    features
        Which features; all by default.
    """

    def __init__(
        self,
        kind: Literal["zscore", "last", "minmax"],
        features: str | Sequence[str] | None = None,
    ) -> None:
        super().__init__(as_choice("kind", kind, NORMS), features)


class Differences(WindowTransform):
    """Each value less the one before it; of the first row of ``X``, less that of the row before.

    The one before is the last that is not missing. A window therefore takes one row more.

    Parameters
    ----------
    features
        Which features; all by default.
    """

    _is_step = True

    def __init__(self, features: str | Sequence[str] | None = None) -> None:
        super().__init__("differences", features)


class LogReturns(WindowTransform):
    """``log(v[i] / v[i - 1])`` of the values as they were read, before the scaler.

    Missing values are passed over, as by :class:`Differences`. A window takes one row more. Values
    are known to the precision of the stored dtype: one that is not above 0, or that cannot be told
    from 0, is a :class:`PrecisionError`.

    Parameters
    ----------
    features
        Which features; all by default.
    """

    _is_step = True

    def __init__(self, features: str | Sequence[str] | None = None) -> None:
        super().__init__("log_returns", features)


def steps_and_norms(
    transforms: Sequence[WindowTransform], features: list[str]
) -> tuple[list[str], list[str]]:
    """What the core does to each feature of a directory.

    Parameters
    ----------
    transforms
        As the user gave them.
    features
        Of the directory.
    """
    if not isinstance(transforms, Sequence) or isinstance(transforms, str):
        raise InvalidTypeError(f"transforms must be a list, not {shown(transforms)}")
    steps, norms = ["none"] * len(features), ["none"] * len(features)
    for transform in transforms:
        if not isinstance(transform, WindowTransform):
            raise InvalidTypeError(
                "transforms of windows are WindowNorm, Differences and LogReturns, not "
                f"{shown(transform)}; a function goes to transform="
            )
        for name in features if transform.features is None else transform.features:
            if name not in features:
                raise NoSuchKeyError(f"transforms: no feature {name!r}{suggestion(name, features)}")
            i = features.index(name)
            if transform._is_step and norms[i] != "none":
                raise InvalidArgumentError(
                    f"{transform!r} must come before the WindowNorm of {name!r}"
                )
            kinds = steps if transform._is_step else norms
            if kinds[i] != "none":
                raise InvalidArgumentError(
                    f"transforms has {kinds[i]!r} and {transform.kind!r} for {name!r}: take one"
                )
            kinds[i] = transform.kind
    return steps, norms
