"""Time series: rows of many entities, scaled once, and windows cut from them.

>>> from cellfeed.series import build_series
>>> build_series("prices/*.csv", "series", time="Date")     # doctest: +SKIP
"""

from ._build import SeriesResult, build_series, verify_series

__all__ = ["SeriesResult", "build_series", "verify_series"]
