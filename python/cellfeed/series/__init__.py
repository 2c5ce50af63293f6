"""Time series: rows of many entities, scaled once, and windows cut from them.

>>> from cellfeed.series import build_series
>>> build_series("prices/*.csv", "series", time="Date")     # doctest: +SKIP
>>> x, y = SeriesDataset("series", window=60)[0]             # doctest: +SKIP
"""

from ._append import AppendResult, append_series
from ._batch import SeriesBatch
from ._build import SeriesResult, build_series
from ._dataset import SeriesDataset
from ._loader import SeriesLoader
from ._scaler import Scaler
from ._transforms import Differences, LogReturns, WindowNorm
from ._verify import verify_series

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
