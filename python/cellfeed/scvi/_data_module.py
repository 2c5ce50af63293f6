"""Cells of any size as the data module that models of scvi-tools train with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scvi.module import SCANVAE

from .._arguments import as_bool, as_int, as_text, shown
from .._cells.origins import Selected
from .._iteration.rank import Ranks
from .._options import Data, Rows
from ..collection import CellCollection
from ..errors import InvalidArgumentError, InvalidTypeError
from ..loader import Loader
from ..opening import open
from ..strategies import SamplingStrategy, Streaming, shuffled
from ..training._data_module import CellDataModule as AnyModelsDataModule
from ._checks import require_genes, shares_of, warn_unless_counts
from ._fields import Fields, Tensors
from ._labelled import WithLabelled


class CellDataModule(AnyModelsDataModule):
    """Cells that do not fit in memory, for a model of scvi-tools.

    >>> data = cellfeed.scvi.CellDataModule("atlas/*.h5ad", batch_key="donor")   # doctest: +SKIP
    >>> model = scvi.model.SCVI(registry=data.registry)                          # doctest: +SKIP
    >>> model.train(datamodule=data, max_epochs=20)                              # doctest: +SKIP
    >>> model.get_latent_representation(dataloader=data.inference_dataloader())  # doctest: +SKIP

    Keys mean what they mean to the model's ``setup_anndata``. Every cell needs a label in each
    column of labels, and a value in each column of numbers.

    Parameters
    ----------
    cells
        Files as for :func:`cellfeed.open`, an AnnData, or a collection, of counts.
    batch_key, labels_key, sample_key
        obs columns of labels, integers or booleans.
    categorical_covariate_keys
        More of them.
    continuous_covariate_keys
        obs columns of numbers.
    size_factor_key
        An obs column of numbers, used instead of the counts of a cell.
    unlabeled_category
        The label in ``labels_key`` of cells whose label is not known. Cells where it is missing get
        it. With None, a missing label is an error.
    model_name
        The class of the model, such as ``"SCANVI"``; ``load`` compares it.
    registry
        ``model.registry`` of a trained model: keys and codes are those it was trained with, and the
        keys above are left out. A label that the model does not know is an error.
    train_size, validation_size
        Shares of the cells. By default the validation has what training leaves; where both are
        given, the rest is for tests. From scvi-tools 1.5 on, those of ``model.train()`` count.
    split_by
        An obs column: cells with one value come to one part, as with ``split_by="donor"``.
    batch_size
        Cells of a batch on one rank. From scvi-tools 1.5 on, that of ``model.train()`` counts.
    seed
        Chooses the cells of each split and the order of each epoch.
    strategy
        The order of training: true random by default, and blocks of 64 where files are compressed
        in chunks.
    memory_budget, threads, pin_memory, drop_last
        As for :class:`~cellfeed.Loader`. By default, memory is page-locked where there is a GPU,
        and a last batch of training is dropped if it has one cell, as batch normalisation cannot
        train on it.

    Attributes
    ----------
    registry : dict
        What the model is made of.
    n_obs, n_vars, n_batch, n_labels, n_samples : int
        Cells, genes, and labels of ``batch_key``, ``labels_key`` and ``sample_key``.
    batch_labels, label_keys, sample_keys : numpy.ndarray
        Names of the codes.
    train_idx, val_idx, test_idx : numpy.ndarray
        Row numbers of the parts, int64.

    Raises
    ------
    NoSuchKeyError
        There is no such obs column.
    InvalidArgumentError
        A cell has no label or value; a label is new to the registry; genes are not the registry's.
    InvalidTypeError
        A column holds labels instead of numbers, or floats instead of labels.
    """

    def __init__(
        self,
        cells: Data | CellCollection,
        *,
        batch_key: str | None = None,
        labels_key: str | None = None,
        sample_key: str | None = None,
        categorical_covariate_keys: Sequence[str] | None = None,
        continuous_covariate_keys: Sequence[str] | None = None,
        size_factor_key: str | None = None,
        unlabeled_category: str | None = "Unknown",
        model_name: str = "SCVI",
        registry: Mapping[str, Any] | None = None,
        train_size: float = 0.9,
        validation_size: float | None = None,
        split_by: str | None = None,
        batch_size: int = 128,
        seed: int = 0,
        strategy: SamplingStrategy | None = None,
        memory_budget: int | str = "2GB",
        threads: int | None = None,
        pin_memory: bool | None = None,
        drop_last: bool | None = None,
    ) -> None:
        if not isinstance(cells, CellCollection):
            cells = open(cells)
        keys: dict[str, Any] = {
            "batch_key": batch_key,
            "labels_key": labels_key,
            "sample_key": sample_key,
            "size_factor_key": size_factor_key,
            "categorical_covariate_keys": categorical_covariate_keys,
            "continuous_covariate_keys": continuous_covariate_keys,
        }
        known: Mapping[str, Any] | None = None
        if split_by is not None:
            cells.obs_column(as_text("split_by", split_by))
        if registry is not None:
            if not isinstance(registry, Mapping) or "field_registries" not in registry:
                raise InvalidTypeError(f"registry must be model.registry, not {shown(registry)}")
            given = [name for name, key in keys.items() if key is not None]
            if given:
                raise InvalidArgumentError(f"registry has the keys: leave out {', '.join(given)}")
            model_name, known = registry["model_name"], registry["field_registries"]
            keys = {name: registry["setup_args"].get(name) for name in keys}
            unlabeled_category = known["labels"]["state_registry"].get("unlabeled_category")
            require_genes(cells, known["X"]["state_registry"]["column_names"])
        model_name = as_text("model_name", model_name)
        self._fields = Fields(cells, keys, model_name, unlabeled_category, known)
        warn_unless_counts(cells, model_name)
        self._train_drops_last = drop_last
        super().__init__(
            cells,
            batch_size,
            split=shares_of(train_size, validation_size),
            by=split_by,
            split_seed=as_int("seed", seed, 0),
            strategy=strategy,
            output="dense",
            collate_fn=self._fields.tensors,
            obs=self._fields.columns(),
            seed=seed,
            memory_budget=memory_budget,
            threads=threads,
            pin_memory=torch.cuda.is_available() if pin_memory is None else pin_memory,
        )
        self.data_loader_kwargs: dict[str, Any] = {}  # scvi-tools reads it

    @property
    def registry(self) -> dict[str, Any]:
        """What the model is made of: ``SCVI(registry=data.registry)``."""
        return self._fields.registry()

    @property
    def n_obs(self) -> int:
        """Number of cells."""
        return len(self._fields.cells)

    @property
    def n_vars(self) -> int:
        """Number of genes."""
        return self._fields.cells.n_vars

    @property
    def n_batch(self) -> int:
        """Number of labels of ``batch_key``; 1 without it."""
        return len(self._fields.batch)

    @property
    def n_labels(self) -> int:
        """Number of labels of ``labels_key``, for SCANVI those it can predict; 1 without it."""
        names = self._fields.labels.names
        return len(names) - (
            self._fields.model_name == "SCANVI" and self._fields.unlabeled in names
        )

    @property
    def n_samples(self) -> int:
        """Number of labels of ``sample_key``; 1 without it."""
        return len(self._fields.sample)

    @property
    def n_continuous_cov(self) -> int:
        """Number of continuous covariates."""
        return len(self._fields.continuous)

    @property
    def n_cats_per_cov(self) -> list[int]:
        """Number of labels of each categorical covariate."""
        return [len(codes) for codes in self._fields.categorical]

    @property
    def batch_labels(self) -> np.ndarray:
        """Labels of ``batch_key`` by code."""
        return self._fields.batch.names

    @property
    def label_keys(self) -> np.ndarray:
        """Labels of ``labels_key`` by code."""
        return self._fields.labels.names

    @property
    def sample_keys(self) -> np.ndarray:
        """Labels of ``sample_key`` by code."""
        return self._fields.sample.names

    @property
    def labels_(self) -> np.ndarray:
        """The label of each cell in ``labels_key``, an object array."""
        if self._fields.keys["labels_key"] is None:
            raise InvalidArgumentError(f"{self._fields.model_name} needs labels: give labels_key")
        return self._fields.labels.labels_of(self._fields.cells)

    def set_batch_size(self, batch_size: int | None = None) -> None:
        """Change the number of cells in a batch, as ``model.train(batch_size=...)`` does.

        Parameters
        ----------
        batch_size
            None leaves it.
        """
        if batch_size is not None:
            self.batch_size = as_int("batch_size", batch_size, 1)

    def set_split(
        self,
        train_size: float | None = None,
        validation_size: float | None = None,
        shuffle_set_split: bool = True,
        batch_size: int | None = None,
    ) -> None:
        """Divide the cells anew, as ``model.train(train_size=...)`` does.

        Parameters
        ----------
        train_size, validation_size
            Shares of the cells. ``train_size=0.9`` alone leaves the shares as they are, because
            ``model.train()`` passes it where it was given none.
        shuffle_set_split
            Without it, validation cells come first in the stored order, then those of training.
        batch_size
            As for :meth:`set_batch_size`.
        """
        self.set_batch_size(batch_size)
        self._parts = {}
        given = (train_size, validation_size)
        if given in ((None, None), (0.9, None)):
            shares = self._division.shares
        else:
            shares = shares_of(train_size, validation_size)
            self._division = replace(self._division, shares=shares)
        if not as_bool("shuffle_set_split", shuffle_set_split):
            if self._division.by is not None:
                raise InvalidArgumentError("split_by needs shuffle_set_split=True")
            self._parts = self._stored_order(shares)
            self._cells = self._fields.cells

    def _stored_order(self, shares: Mapping[str, float]) -> dict[str, CellCollection]:
        parts, begin, share_before = {}, 0, 0.0
        for name in sorted(shares, key=("val", "train", "test").index):
            share_before += shares[name]
            end = round(share_before * self.n_obs)
            parts[name] = self._fields.cells.filter(slice(begin, end))
            begin = end
        return parts

    def _rows(self, part: str) -> np.ndarray:
        self.setup()
        if part not in self.parts:
            return np.empty(0, dtype=np.int64)
        origin = self.parts[part]._origin
        assert isinstance(origin, Selected)
        return np.asarray(origin.runs.rows())

    @property
    def train_idx(self) -> np.ndarray:
        """Row numbers of the cells of training, int64."""
        return self._rows("train")

    @property
    def val_idx(self) -> np.ndarray:
        """Row numbers of the cells of validation, int64."""
        return self._rows("val")

    @property
    def test_idx(self) -> np.ndarray:
        """Row numbers of the cells of the tests, int64."""
        return self._rows("test")

    @property
    def n_train(self) -> int:
        """Number of cells of training."""
        return len(self.train_idx)

    @property
    def n_val(self) -> int:
        """Number of cells of validation."""
        return len(self.val_idx)

    def train_dataloader(self) -> Any:
        """Shuffled batches of the training cells, in another order each epoch.

        For SCANVI, where some cells are unlabeled: pairs of such a batch and one of labeled cells.
        """
        self.setup()
        self._options["drop_last"] = self._drops_last(self.n_train)
        loader = super().train_dataloader()
        if not self._needs_labelled():
            return loader
        labelled = self._labelled("train")
        options: Any = {**self._options, "drop_last": self._drops_last(len(labelled))}
        return WithLabelled(loader, self._loader(labelled, shuffled(labelled), options))

    def val_dataloader(self) -> Any:
        """Batches of the validation cells, in the stored order; nothing where there are none."""
        self.setup()
        loader = super().val_dataloader()
        if not self._needs_labelled() or isinstance(loader, list):
            return loader
        return WithLabelled(loader, self._in_order(self._labelled("val")))

    def _drops_last(self, n_cells: int) -> bool:
        if self._train_drops_last is not None:
            return self._train_drops_last
        n_ranks = Ranks(self._options.get("rank"), self._options.get("world_size")).now()[1]
        n_of_rank = -(-n_cells // n_ranks)
        return n_of_rank > 1 and n_of_rank % self.batch_size == 1

    def _needs_labelled(self) -> bool:
        """Whether the model that is trained, or is to be, learns from labelled cells."""
        fields = self._fields
        is_named = fields.model_name == "SCANVI"
        plan = getattr(self.trainer, "lightning_module", None)
        is_scanvi = is_named if plan is None else isinstance(plan.module, SCANVAE)
        if is_scanvi and not is_named:
            raise InvalidArgumentError('to train SCANVI, give CellDataModule model_name="SCANVI"')
        return is_scanvi and fields.unlabeled in fields.labels.names

    def _labelled(self, part: str) -> CellCollection:
        """The cells of a part that have a label; those of training where it has none."""
        labels = self._fields.labels
        for name in (part, "train"):
            is_labelled = labels.codes_of(self.parts[name]) < len(labels) - 1
            if is_labelled.any():
                return self.parts[name].filter(is_labelled)
        raise InvalidArgumentError(f"no cell of training has a label in {labels.key!r}")

    def inference_dataloader(
        self, batch_size: int | None = None, indices: Rows | None = None
    ) -> Loader[Tensors]:
        """All cells in the stored order, on every rank: for methods of a model that take one.

        Parameters
        ----------
        batch_size
            Cells of a batch; that of the module by default.
        indices
            The rows of some cells, in this order.
        """
        cells = self._fields.cells if indices is None else self._fields.cells.filter(indices)
        options: dict[str, Any] = {**self._options, "drop_last": False, "rank": 0, "world_size": 1}
        return Loader(
            cells,
            Streaming(),
            self.batch_size if batch_size is None else batch_size,
            output="dense",
            collate_fn=self._fields.tensors,
            **options,
        )
