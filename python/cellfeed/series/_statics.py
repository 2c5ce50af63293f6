"""What an entity has once: columns stored beside the rows, as numbers for a model and as labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from ..errors import PrecisionError


class StaticColumns:
    """Static columns of all entities of a directory.

    Parameters
    ----------
    names
        The columns.
    columns
        Of each, the value of each entity: numbers or texts; None where there is none.
    dtype
        Of :attr:`values`.

    Attributes
    ----------
    values
        ``(entities, len(names))``: numbers as they were read; of texts their codes. NaN where there
        is none.
    categories
        Of each column of texts: the texts by their code, in the order in which entities have
        them, so that entities that are appended change no code.
    """

    def __init__(
        self, names: list[str], columns: list[list[float | str | None]], dtype: str
    ) -> None:
        self.categories: dict[str, list[str]] = {}
        self.values = np.empty((len(columns[0]) if columns else 0, len(names)), dtype)
        self._raw: dict[str, np.ndarray] = {}
        for place, (name, column) in enumerate(zip(names, columns, strict=True)):
            if any(isinstance(value, str) for value in column):
                texts = list(dict.fromkeys(str(text) for text in column if text is not None))
                codes: dict[object, float] = {text: code for code, text in enumerate(texts)}
                codes[None] = np.nan
                self.categories[name] = texts
                self._raw[name] = np.array(column, dtype=object)
                numbers = np.array([codes[text] for text in column], np.float64)
            else:
                numbers = np.array([np.nan if v is None else v for v in column], np.float64)
                self._raw[name] = numbers
            with np.errstate(over="ignore"):
                self.values[:, place] = numbers
            if np.isinf(self.values[:, place]).any():
                raise PrecisionError(
                    f"static column {name!r}: a number is beyond {dtype}; take dtype='float64'"
                )

    def codes(self, name: str, entities: np.ndarray) -> np.ndarray:
        """Places of texts in :attr:`categories`, int64, of entities; -1 where there is none."""
        code_of = {text: code for code, text in enumerate(self.categories[name])}
        codes = [code_of.get(text, -1) for text in self.raw(name, entities).tolist()]
        return np.array(codes, dtype=np.int64)

    def raw(self, name: str, entities: np.ndarray) -> np.ndarray:
        """Values of one column as they were read, of entities by number."""
        found: np.ndarray = self._raw[name][entities]
        return found


class WindowLabels(Mapping[str, np.ndarray]):
    """Labels of all windows: those of an entity are alike, and are repeated when asked for."""

    def __init__(self, columns: dict[str, np.ndarray], counts: np.ndarray) -> None:
        self._columns = columns
        self._counts = counts

    def runs_of(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """A column as runs: a label for each, and to how many windows it belongs."""
        return self._columns[name], self._counts

    def __getitem__(self, name: str) -> np.ndarray:
        return np.repeat(*self.runs_of(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)
