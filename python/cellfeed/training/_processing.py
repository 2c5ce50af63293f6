"""What is asked of values before a model sees them, and what of it files record as done."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..collection import CellCollection
from ..config import Config
from ..errors import InvalidArgumentError, UnsupportedError
from ..transforms import Log1p, NormalizeTotal, Transform

# Of a record, as preprocess writes it (docs/preprocessing.md).
_NORMALIZED, _LOGARITHM, _GENES = "normalize_total", "log1p", "highly_variable_genes"
_OF_VALUES = (_NORMALIZED, _LOGARITHM)


@dataclass(frozen=True)
class Processing:
    """Steps by the names and in the form in which data records them.

    Attributes
    ----------
    steps
        Name -> what was asked for: ``{"normalize_total": 10000.0, "log1p": True}``.
    asker
        Who asks, for messages.
    compares
        The steps that files must agree in.
    advice
        What to do about others, for messages.
    """

    steps: dict[str, Any]
    asker: str
    compares: tuple[str, ...] = (*_OF_VALUES, _GENES)
    advice: str = (
        "Ask for what was done (or for nothing: the values stay as they are), or start from raw "
        "counts"
    )

    @staticmethod
    def of_config(config: Config) -> Processing:
        """What ``data.preprocessing`` asks for; nothing without that section."""
        asked, steps = config.data.preprocessing, {}
        if config._has_preprocessing:  # also where it is empty, and all settings have defaults
            steps = _of_values(asked.target_sum if asked.normalize else None, asked.log_transform)
            if asked.n_top_genes is not None:
                steps[_GENES] = {"flavor": asked.hvg_flavor, "n_top_genes": asked.n_top_genes}
        return Processing(steps, f"data.preprocessing of {config.path}")

    @staticmethod
    def of_model(normalize_to: float | None, log_transform: bool) -> Processing:
        """What a model takes; which genes files hold is found by their names."""
        return Processing(
            _of_values(normalize_to, log_transform), "the model", _OF_VALUES,
            "Give it raw counts; or force it, and the values are taken as they are",
        )  # fmt: skip

    def transforms(self, force: bool = False) -> list[Transform]:
        """What a loader does to values that nothing was done to; ``force``: whatever they are."""
        made: list[Transform] = []
        if _NORMALIZED in self.steps:
            made.append(NormalizeTotal(self.steps[_NORMALIZED], force=force))
        if _LOGARITHM in self.steps:
            made.append(Log1p(force=force))
        return made

    @property
    def normalize_to(self) -> float | None:
        """The sum of a cell; None: as it is."""
        return self.steps.get(_NORMALIZED)

    @property
    def log_transform(self) -> bool:
        """Whether logarithms are taken."""
        return _LOGARITHM in self.steps

    def is_recorded(self, cells: CellCollection, force: bool = False) -> bool:
        """Whether all files of some cells record that just this was done, so that nothing is left.

        Parameters
        ----------
        cells
            Whose files are looked at; no values are.
        force
            Whether other steps that a file records pass for these.

        Raises
        ------
        InvalidArgumentError
            A file records other steps, or only some of the files record any.
        UnsupportedError
            Highly variable genes are asked for, and no file records that they were found.
        """
        if not self.steps:
            return False
        raw, done = [], []
        for path, recorded in _records(cells, self.compares):
            if self._is_all_of(recorded):
                done.append(path)
            elif self._is_none_of(recorded):
                raw.append(path)
            elif force:
                done.append(path)
            else:
                self._refuse(path, recorded)
        if raw and done:
            raise InvalidArgumentError(
                f"{raw[0]} does not record what {self.asker} asks for ({self}), and {done[0]} "
                "records that it was done: give files of one kind"
            )
        if raw and _GENES in self.steps:
            raise UnsupportedError(
                f"{self.asker} asks for n_top_genes, and {raw[0]} does not record that highly "
                "variable genes were found, which training does not do: run `cellfeed shard "
                "--config` or `cellfeed preprocess --config`, and train on what it writes"
            )
        return bool(done)

    @staticmethod
    def recorded_by(cells: CellCollection) -> dict[str, Any]:
        """What files record of their values, for cells that are trained on as they are.

        Parameters
        ----------
        cells
            Whose files are looked at; no values are.

        Returns
        -------
        dict
            The steps by name, none where no file records any.

        Raises
        ------
        InvalidArgumentError
            Files record different steps.
        """
        recorded = json.loads(cells._core.processing)
        return {name: recorded[name] for name in _OF_VALUES if recorded.get(name)}

    @staticmethod
    def require_alike(cells: CellCollection, trained_on: dict[str, Any]) -> None:
        """Refuse files that record other steps than those that were trained on as they were.

        Parameters
        ----------
        cells
            Whose files are looked at.
        trained_on
            What :meth:`recorded_by` gave; nothing is known where it is empty.

        Raises
        ------
        InvalidArgumentError
            A file records other steps.
        """
        for path, steps in _records(cells, _OF_VALUES):
            if trained_on and steps and steps != trained_on:
                raise InvalidArgumentError(
                    f"{path}: its values are of another kind than the model was trained on: the "
                    f"file records {_listed(steps)}, and those of training {_listed(trained_on)}; "
                    "give it values that were made the same way, or force it"
                )

    def _compared(self) -> tuple[str, ...]:
        # Values that are to stay as they are may be anything.
        asks_for_values = any(name in self.steps for name in _OF_VALUES)
        return self.compares if asks_for_values else (_GENES,)

    def _is_all_of(self, recorded: dict[str, Any]) -> bool:
        return all(self.steps.get(name) == recorded.get(name) for name in self._compared())

    def _is_none_of(self, recorded: dict[str, Any]) -> bool:
        # Genes that were chosen before are no matter where none are to be chosen.
        names = [x for x in self._compared() if x in _OF_VALUES or x in self.steps]
        return not any(name in recorded for name in names)

    def _refuse(self, path: str, recorded: dict[str, Any]) -> None:
        said = [
            f"{name} is {_shown(recorded.get(name), 'not recorded')} in the file and "
            f"{_shown(self.steps.get(name), 'not asked for')}"
            for name in self._compared()
            if self.steps.get(name) != recorded.get(name)
        ]
        raise InvalidArgumentError(
            f"{path}: its values are processed already, in another way than {self.asker} asks for: "
            f"{'; '.join(said)}. {self.advice}"
        )

    def __str__(self) -> str:
        return _listed(self.steps)


def _listed(steps: dict[str, Any]) -> str:
    return ", ".join(f"{name} {_shown(step)}".strip() for name, step in steps.items())


def _of_values(normalize_to: float | None, log_transform: bool) -> dict[str, Any]:
    normalize = {} if normalize_to is None else {_NORMALIZED: normalize_to}
    return {**normalize, **({_LOGARITHM: True} if log_transform else {})}


def _records(cells: CellCollection, names: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
    """Of each file its path and these steps of its record."""
    records = []
    for store, file in enumerate(cells.files):
        recorded = json.loads(cells._core.store_processing(store))
        steps = {name: recorded[name] for name in names if recorded.get(name) not in (None, False)}
        records.append((file["path"], steps))
    return records


def _shown(step: Any, absent: str = "") -> str:
    if step is None:
        return absent
    if isinstance(step, dict):
        return " ".join(f"{name} {_shown(value)}".strip() for name, value in step.items())
    if step is True:
        return "done" if absent else ""
    return f"{step:g}" if isinstance(step, float) else str(step)
