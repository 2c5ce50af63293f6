"""Loaders for training, validation and tests, as Lightning's ``Trainer`` asks for them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from .._arguments import as_bool, as_choice, as_int, as_names, as_text, check_options, one_of, shown
from .._cells.filtering import rows_where
from .._iteration.rank import Ranks
from .._options import CacheMode, LoaderOptions, LoaderOutput, Output, Path
from ..collection import CellCollection
from ..config import Config
from ..errors import InvalidArgumentError, InvalidTypeError
from ..loader import Loader
from ..opening import open
from ..strategies import BlockShuffling, SamplingStrategy, Streaming, WholeShards, as_strategy
from ..tokens import Masking
from ._from_config import arguments_of
from ._specification import Specification

if TYPE_CHECKING or "pytorch_lightning" not in sys.modules:
    from lightning.pytorch import LightningDataModule
else:
    from pytorch_lightning import LightningDataModule

if TYPE_CHECKING:
    import anndata

_PARTS = ("train", "val", "test")
_OTHER_NAMES = {"valid": "val", "validation": "val"}
# Where rows lie in compressed chunks, each of which is inflated for all of its rows.
_CHUNKED_BLOCK = 64


class CellDataModule(LightningDataModule):
    """Cells divided into training, validation and test: ``trainer.fit(model, datamodule=...)``.

    Each part is a :class:`~cellfeed.Loader`: on several devices the ranks share every epoch, also
    where this was made before Lightning started them, and a checkpoint continues in the middle of
    an epoch. Workers of a ``DataLoader`` are not needed.

    Parameters
    ----------
    data
        Files as for :func:`cellfeed.open`, an AnnData, or a collection.
    batch_size
        Cells of a batch on one rank.
    split
        How cells are divided. Name -> share of the cells, of ``"train"``, ``"val"`` and ``"test"``;
        or name -> expression for :meth:`~cellfeed.CellCollection.filter`; or an obs column that
        says for each cell ``"train"``, ``"val"`` (``"validation"``) or ``"test"``, or nothing for
        those that are left out.
    by, stratify
        Of shares: obs columns, as for :meth:`~cellfeed.CellCollection.split`. ``by="donor"``: no
        donor in two parts.
    split_seed
        Of shares.
    strategy
        The order of training. By default true random, and blocks of 64 where the files are
        compressed in chunks. A strategy that goes by labels looks at the training cells alone.
    whole_shards
        Where several ranks share an epoch and there is no strategy: deal whole shards to them
        (:class:`~cellfeed.WholeShards`).
    genes
        The gene axis: a vocabulary or a list, as for :func:`cellfeed.open`. Only with files.
    output
        ``"csr"`` or ``"dense"``.
    cache_mode, cache_dir
        As of :func:`cellfeed.open`. Only with files.
    **options
        More of :class:`~cellfeed.Loader`: ``obs`` (such as the labels), ``transforms``, ``dtype``,
        ``seed``, ``remainder``, ``drop_last`` (of training alone), ``memory_budget``, ...

    Attributes
    ----------
    cells : CellCollection
        All cells; after :meth:`setup`, as the parts.
    parts : dict
        Name -> collection.
    """

    def __init__(
        self,
        data: Path | Sequence[Path] | anndata.AnnData | CellCollection,
        batch_size: int = 128,
        *,
        split: Mapping[str, float] | Mapping[str, str] | str | None = None,
        by: str | None = None,
        stratify: str | None = None,
        split_seed: int = 0,
        strategy: SamplingStrategy | None = None,
        whole_shards: bool = False,
        genes: Any = None,
        output: Output = "csr",
        cache_mode: CacheMode | None = None,
        cache_dir: Path | None = "auto",
        **options: Unpack[LoaderOptions],
    ) -> None:
        super().__init__()
        self._data = data
        self.batch_size = as_int("batch_size", batch_size, 1)
        self._split = _as_split({"train": 0.9, "val": 0.1} if split is None else split)
        if not _is_by_shares(self._split) and (by is not None or stratify is not None):
            raise InvalidArgumentError("by and stratify are for shares of the cells")
        self._dealing: dict[str, Any] = {"by": by, "stratify": stratify, "seed": split_seed}
        self._strategy = None if strategy is None else as_strategy(strategy)
        self._whole_shards = as_bool("whole_shards", whole_shards)
        if genes is not None and isinstance(data, CellCollection):
            raise InvalidArgumentError("genes is for files; this collection has its genes")
        self._genes = genes
        if (cache_mode is not None or cache_dir != "auto") and isinstance(data, CellCollection):
            raise InvalidArgumentError(
                "cache_mode and cache_dir are for files; this collection is open"
            )
        self._cache: dict[str, Any] = {"cache_mode": cache_mode, "cache_dir": cache_dir}
        self._output: LoaderOutput = output
        self._options: dict[str, Any] = {**options}
        check_options("CellDataModule", self._options, list(LoaderOptions.__annotations__))
        self._cells: CellCollection | None = None
        self._parts: dict[str, CellCollection] = {}

    @classmethod
    def from_config(cls, config: Config | Path, **changes: Any) -> CellDataModule:
        """Make one of a configuration file (docs/configuration.md).

        Taken are ``data`` and of ``training`` what is of data: files or shards, the vocabulary,
        normalisation and log1p, streaming, the parts, batch size, page-locked memory, labels,
        seed, and weighted sampling. The rest is for the model and the ``Trainer``.

        Parameters
        ----------
        config
            What :meth:`cellfeed.Config.load` returned, or the file.
        **changes
            Arguments of this class, instead of or besides those of the file.

        Raises
        ------
        CellfeedError
            Of reading the file; where it names no data, or asks for highly variable genes or for
            genes of each batch.
        """
        config = config if isinstance(config, Config) else Config.load(config)
        arguments = arguments_of(config)
        if "data" in changes:  # how files are read is of those that the configuration names
            arguments = {k: v for k, v in arguments.items() if k not in ("cache_mode", "cache_dir")}
        return cls(**{**arguments, **changes})

    def setup(self, stage: str | None = None) -> None:
        """Open the files and divide the cells, once; Lightning calls it on each rank.

        Raises
        ------
        CellfeedError
            Of :func:`cellfeed.open`, :meth:`~cellfeed.CellCollection.split` and
            :meth:`~cellfeed.CellCollection.filter`; where a cell would be in two parts, a label of
            the column names none, or a part has no cell.
        """
        if self._parts:
            return
        data = self._data
        if isinstance(data, CellCollection):
            cells = data
        else:
            cells = open(data, genes=self._genes, **self._cache)
        obs = self._options.get("obs")
        for name in [] if obs is None else as_names("obs", obs):
            cells.obs_column(name)
        self._parts = self._divided(cells)
        self._cells = cells

    def _divided(self, cells: CellCollection) -> dict[str, CellCollection]:
        split = self._split
        if isinstance(split, str):
            return _divided_by_column(cells, split)
        if _is_by_shares(split):
            return cells.split(split, **self._dealing)
        return _divided_by_filters(cells, split)

    @property
    def genes(self) -> Any:
        """The gene axis that was asked for."""
        return self._genes

    @property
    def cells(self) -> CellCollection:
        """All cells."""
        self._require_setup()
        assert self._cells is not None
        return self._cells

    @property
    def parts(self) -> dict[str, CellCollection]:
        """Name -> collection, of ``"train"``, ``"val"`` and ``"test"``."""
        self._require_setup()
        return dict(self._parts)

    def feed(self, specification: Specification, mask_fraction: float) -> None:
        """Make batches that a model takes: dense values, or tokens of which some are hidden.

        Parameters
        ----------
        specification
            Of the model.
        mask_fraction
            Share of the tokens that are hidden.
        """
        tokens = specification.token_output()
        self._output = "dense" if tokens is None else "tokens"
        if tokens is not None:
            self._options["tokens"] = tokens
        if specification.predicts is not None:
            self._options["masking"] = Masking(mask_fraction, specification.predicts)

    def _require_setup(self) -> None:
        if not self._parts:
            raise InvalidArgumentError("call setup() first; Trainer.fit does")

    def _part(self, name: str) -> CellCollection:
        if name not in self.parts:
            raise InvalidArgumentError(
                f"split has no part {name!r}: it divides the cells into {', '.join(self._parts)}"
            )
        return self._parts[name]

    def _loader(self, cells: CellCollection, strategy: Any, options: Any) -> Loader[Any]:
        made: Any = Loader(cells, strategy, self.batch_size, output=self._output, **options)
        loader: Loader[Any] = made
        return loader

    def train_dataloader(self) -> Loader[Any]:
        """Shuffled batches of the training cells, another order each epoch."""
        strategy, options = self._strategy, self._options
        if strategy is None:
            strategy = BlockShuffling(_CHUNKED_BLOCK if self.cells._core.is_chunked else 1)
            # The process group is there by now.
            world_size = Ranks(options.get("rank"), options.get("world_size")).now()[1]
            if self._whole_shards and world_size > 1:
                strategy = WholeShards(world_size)
                options = {**options, "partition": "interleave"}
        return self._loader(self._part("train"), strategy, options)

    def val_dataloader(self) -> Loader[Any] | list[Any]:
        """The validation cells in the order of the files; nothing where there are none."""
        return self._in_order(self._part("val")) if "val" in self.parts else []

    def test_dataloader(self) -> Loader[Any]:
        """The test cells in the order of the files."""
        return self._in_order(self._part("test"))

    def predict_dataloader(self) -> Loader[Any]:
        """All cells in the order of the files, whatever their part."""
        return self._in_order(self.cells)

    def _in_order(self, cells: CellCollection) -> Loader[Any]:
        return self._loader(
            cells, Streaming(), {**self._options, "drop_last": False, "tune": False}
        )


def _is_by_shares(split: Any) -> bool:
    return isinstance(split, Mapping) and not any(isinstance(v, str) for v in split.values())


def _as_split(split: Any) -> Any:
    if isinstance(split, str):
        return split
    if not isinstance(split, Mapping) or not split:
        raise InvalidTypeError(
            'split must be shares such as {"train": 0.9, "val": 0.1}, expressions, or the name of '
            f"an obs column, not {shown(split)}"
        )
    for name in split:
        as_choice("split", name, _PARTS)
    if "train" not in split:
        raise InvalidArgumentError("split has no part 'train'")
    kinds = {isinstance(value, str) for value in split.values()}
    if len(kinds) > 1:
        raise InvalidTypeError("split mixes shares and expressions: give one or the other")
    return dict(split)


def _divided_by_filters(
    cells: CellCollection, split: Mapping[str, str]
) -> dict[str, CellCollection]:
    part_of = np.full(len(cells), -1, dtype=np.int8)
    for number, (name, where) in enumerate(split.items()):
        rows = rows_where(cells, as_text(f"split[{name!r}]", where))
        taken = part_of[rows]
        if (taken >= 0).any():
            row, other = rows[taken >= 0][0], [*split][int(taken[taken >= 0][0])]
            raise InvalidArgumentError(
                f"cell {row} is of {other!r} and of {name!r}, {int((taken >= 0).sum())} cells in "
                "all: a model would be judged by what it has learned"
            )
        part_of[rows] = number
    return {name: cells.filter(part_of == number) for number, name in enumerate(split)}


def _divided_by_column(cells: CellCollection, column: str) -> dict[str, CellCollection]:
    labels = [str(label).lower() for label in cells.categories(column)]
    names = [_OTHER_NAMES.get(label, label) for label in labels]
    for name in names:
        if name not in _PARTS:
            raise InvalidArgumentError(
                f"obs column {column!r} says {name!r}: its labels must be {one_of(_PARTS)}, and "
                "missing where a cell is left out"
            )
    codes = cells.obs_values(column)
    parts = {}
    for name in dict.fromkeys(names):
        is_mine = np.isin(codes, [code for code, other in enumerate(names) if other == name])
        if is_mine.any():
            parts[name] = cells.filter(is_mine)
    if "train" not in parts:
        raise InvalidArgumentError(f"no cell has 'train' in obs column {column!r}")
    return parts
