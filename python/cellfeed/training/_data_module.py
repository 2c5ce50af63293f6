"""Loaders for training, validation and tests, as Lightning's ``Trainer`` asks for them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, NoReturn, Unpack, cast

from .._arguments import as_bool, as_function, as_int, as_names, check_options
from .._iteration.rank import Ranks
from .._iteration.run import Run
from .._keywords import LoaderKeywords
from .._options import Cache, Data, Genes, LoaderOutput, Output, Path
from ..collection import CellCollection
from ..config import Config
from ..errors import InvalidArgumentError
from ..loader import Loader
from ..opening import open
from ..strategies import SamplingStrategy, Streaming, WholeShards, as_strategy, shuffled
from ..tokens import Masking
from ._checks import require_cells
from ._division import Division, Split
from ._from_config import arguments_of
from ._processing import Processing
from ._specification import Specification

if TYPE_CHECKING or "pytorch_lightning" not in sys.modules:
    from lightning.pytorch import LightningDataModule
else:
    from pytorch_lightning import LightningDataModule


class _LoaderOfOneEpoch(Loader[Any]):
    """Draws the same in every pass, whatever epoch was counted."""

    @property
    def sampler(self) -> NoReturn:
        """None: Lightning sets no epoch, and takes it for a loader that does not shuffle."""
        raise AttributeError("sampler")

    def _batches(self, run: Run) -> Generator[Any, None, None]:
        self.set_epoch(self._options.epoch)
        yield from super()._batches(run)


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
    cache, cache_dir
        As of :func:`cellfeed.open`. Only with files.
    collate_fn
        ``f(batch)`` makes what the loaders yield, as for :class:`~cellfeed.Loader`.
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
        data: Data | CellCollection,
        batch_size: int = 128,
        *,
        split: Split | None = None,
        by: str | None = None,
        stratify: str | None = None,
        split_seed: int = 0,
        strategy: SamplingStrategy | None = None,
        whole_shards: bool = False,
        genes: Genes | None = None,
        output: Output = "csr",
        cache: Cache | None = None,
        cache_dir: Path | None = "auto",
        collate_fn: Callable[[Any], Any] | None = None,
        **options: Unpack[LoaderKeywords],
    ) -> None:
        super().__init__()
        self._data = data
        self.batch_size = as_int("batch_size", batch_size, 1)
        split = {"train": 0.9, "val": 0.1} if split is None else split
        self._division = Division.of(split, by, stratify, split_seed)
        self._strategy = None if strategy is None else as_strategy(strategy)
        self._whole_shards = as_bool("whole_shards", whole_shards)
        if genes is not None and isinstance(data, CellCollection):
            raise InvalidArgumentError("genes is for files; this collection has its genes")
        self._genes = genes
        if (cache is not None or cache_dir != "auto") and isinstance(data, CellCollection):
            raise InvalidArgumentError("cache and cache_dir are for files; this collection is open")
        self._cache, self._cache_dir = cache, cache_dir
        self._output: LoaderOutput = output
        self._collate_fn = as_function("collate_fn", collate_fn)
        check_options("CellDataModule", options, list(LoaderKeywords.__annotations__))
        self._options = options
        self._in_order_options: dict[str, Any] = {}
        self._processing: Processing | None = None
        self._is_processed = False
        self._cells: CellCollection | None = None
        self._parts: dict[str, CellCollection] = {}

    @classmethod
    def from_config(cls, config: Config | Path, **changes: Any) -> CellDataModule:
        """Make one of a configuration file (docs/configuration.md).

        Taken are ``data`` and of ``training`` what is of data: files or shards, the vocabulary,
        normalisation and log1p, streaming, the parts, batch size, page-locked memory, labels,
        seed, and weighted sampling. The rest is for the model and the ``Trainer``. Files that
        record just the steps of ``data.preprocessing``, as ``cellfeed shard --config`` writes
        them, are taken as they are.

        Parameters
        ----------
        config
            What :meth:`cellfeed.Config.load` returned, or the file.
        **changes
            Arguments of this class, instead of or besides those of the file.

        Raises
        ------
        CellfeedError
            Of reading the file; where it names no data, or asks for genes of each batch.
        """
        config = config if isinstance(config, Config) else Config.load(config)
        arguments = arguments_of(config)
        if "data" in changes:  # how files are read is of those that the configuration names
            arguments = {k: v for k, v in arguments.items() if k not in ("cache", "cache_dir")}
        module = cls(**{**arguments, **changes})
        if "transforms" not in changes:
            module.process(Processing.of_config(config))
        return module

    def __repr__(self) -> str:
        said = {name: len(cells) for name, cells in self._parts.items()}
        cells = ", ".join(f"{name}: {n:,}" for name, n in said.items()) or "not set up"
        return f"CellDataModule({cells}; batch_size={self.batch_size})"

    def __str__(self) -> str:  # Lightning's makes loaders, and takes them for lists of DataLoaders
        return repr(self)

    def setup(self, stage: str | None = None) -> None:
        """Open the files and divide the cells, once; Lightning calls it on each rank.

        Raises
        ------
        CellfeedError
            Of :func:`cellfeed.open`, :meth:`~cellfeed.CellCollection.split` and
            :meth:`~cellfeed.CellCollection.filter`; where a cell would be in two parts, a label of
            the column names none, or a part has no cell; where files record other steps than a
            configuration asks for, or that no highly variable genes were found.
        """
        if self._parts:
            return
        data = self._data
        if isinstance(data, CellCollection):
            cells = data
        else:
            cells = open(data, genes=self._genes, cache=self._cache, cache_dir=self._cache_dir)
        require_cells(cells)
        obs = self._options.get("obs")
        for name in [] if obs is None else as_names("obs", obs):
            cells.obs_column(name)
        if self._processing is not None:
            self._is_processed = self._processing.is_recorded(cells)
            left = [] if self._is_processed else self._processing.transforms()
            self._options["transforms"] = left
        self._parts = self._division.parts_of(cells)
        self._cells = cells

    @property
    def genes(self) -> Genes | None:
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

    @property
    def is_processed(self) -> bool:
        """Whether the files record that what :meth:`process` asks for was done."""
        self._require_setup()
        return self._is_processed

    @property
    def processing_text(self) -> str:
        """What is done to values, in one line."""
        if self._processing is None or not self._processing.steps:
            return "none that is asked for"
        done = "done already, as the files record, so skipped" if self.is_processed else "done here"
        return f"{self._processing}: {done}"

    def process(self, wanted: Processing) -> None:
        """Change values instead of ``transforms``, where files do not record that it was done.

        Parameters
        ----------
        wanted
            What is asked for.
        """
        self._processing = wanted

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
            self._in_order_options["tokens"] = specification.token_output_of_cells()
        if specification.predicts is not None:
            self._options["masking"] = Masking(mask_fraction, specification.predicts)

    def state_dict(self) -> dict[str, Any]:
        """Lightning's hook: which cells are trained on."""
        train = self._parts.get("train")
        return {} if train is None else {"train": [len(train), train.fingerprint]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Lightning's hook: training goes on with the cells that it began with.

        Parameters
        ----------
        state_dict
            What :meth:`state_dict` gave.

        Raises
        ------
        InvalidArgumentError
            The cells are divided otherwise, so that the model would be judged by cells that it has
            learned.
        """
        if self.trainer is None or self.trainer.state.fn != "fit":
            return  # a model is judged by whatever cells one likes
        self.setup()
        then, now = state_dict.get("train"), self.state_dict().get("train")
        # No cell is in two parts: where this one is the same, none of the others was learned.
        if then is None or list(then) == now or list(self._parts) == ["train"]:
            return
        raise InvalidArgumentError(
            f"the checkpoint is of a run that divides the cells otherwise: it was trained on "
            f"{then[0]:,} cells, and these are {len(self._parts['train']):,}, or others, so that "
            "the model would be judged by cells that it has learned: give the same data, split and "
            "split_seed"
        )

    def _require_setup(self) -> None:
        if not self._parts:
            raise InvalidArgumentError("call setup() first; Trainer.fit does")

    def _part(self, name: str) -> CellCollection:
        if name not in self.parts:
            raise InvalidArgumentError(
                f"split has no part {name!r}: it divides the cells into {', '.join(self._parts)}"
            )
        return self._parts[name]

    def _loader(
        self,
        cells: CellCollection,
        strategy: SamplingStrategy,
        options: LoaderKeywords,
        kind: type[Loader[Any]] = Loader,
    ) -> Loader[Any]:
        more: dict[str, Any] = {"output": self._output, "collate_fn": self._collate_fn}
        return kind(cells, strategy, self.batch_size, **more, **options)

    def train_dataloader(self) -> Loader[Any]:
        """Shuffled batches of the training cells, another order each epoch.

        With ``Trainer(overfit_batches=N)`` each epoch has the same N batches.
        """
        strategy, options = self._strategy, self._options
        if strategy is None:
            strategy = shuffled(self.cells)
            # The process group is there by now.
            world_size = Ranks(options.get("rank"), options.get("world_size")).now()[1]
            if self._whole_shards and world_size > 1:
                strategy = WholeShards(world_size)
                options = {**options, "partition": "interleave"}
        overfits = getattr(self.trainer, "overfit_batches", 0) > 0
        kind = _LoaderOfOneEpoch if overfits else Loader
        return self._loader(self._part("train"), strategy, options, kind)

    def val_dataloader(self) -> Loader[Any] | list[Any]:
        """The validation cells in the order of the files; nothing where there are none.

        All passes are of one epoch, so that the same tokens are hidden in each; likewise of the
        other parts below.
        """
        return self._in_order(self._part("val")) if "val" in self.parts else []

    def test_dataloader(self) -> Loader[Any]:
        """The test cells in the order of the files."""
        return self._in_order(self._part("test"))

    def predict_dataloader(self) -> Loader[Any]:
        """All cells in the order of the files, whatever their part."""
        return self._in_order(self.cells)

    def _in_order(self, cells: CellCollection) -> Loader[Any]:
        options: dict[str, Any] = {**self._options, **self._in_order_options}
        return self._loader(
            cells,
            Streaming(),
            cast("LoaderKeywords", {**options, "drop_last": False, "tune": False}),
            _LoaderOfOneEpoch,
        )
