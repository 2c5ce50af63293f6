"""Time series: rows of many entities, scaled once, and windows cut from them.

>>> from cellfeed.series import build_series
>>> build_series("prices/*.csv", "series", time="Date")     # doctest: +SKIP
>>> x, y = SeriesDataset("series", window=60)[0]             # doctest: +SKIP
"""

from ._build import (
    AppendResult,
    SeriesResult,
    append_series,
    build_series,
    verify_series,
)
from ._dataset import SeriesDataset
from ._loader import SeriesBatch, SeriesLoader
from ._scaler import Scaler
from ._transforms import Differences, LogReturns, WindowNorm

__all__ = [
    "AppendResult",
    "Differences",
    "LogReturns",
    "Scaler",
    "SeriesBatch",
    "SeriesDataset",
    "SeriesLoader",
    "SeriesResult",
    "WindowNorm",
    "append_series",
    "build_series",
    "verify_series",
]
