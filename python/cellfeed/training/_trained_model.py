"""A trained model: cells in, vectors or labels out, a batch at a time."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from .._arguments import as_int, as_text
from .._options import Data, Label
from .._progress import Progress, as_progress_callback
from .._torch import can_pin
from ..collection import CellCollection
from ..errors import CorruptDataError, InvalidArgumentError
from ..loader import Loader
from ..opening import open
from ..strategies import Streaming
from ..transforms import SelectGenes
from ..vocab import GeneVocab
from ._checkpoints import read_checkpoint
from ._checks import require_cells, require_same_species, require_values_as_trained
from ._networks import CellNetwork
from ._specification import KEY, Specification

if TYPE_CHECKING:
    import anndata


def load(checkpoint: str | os.PathLike[str], device: str | torch.device = "cpu") -> TrainedModel:
    """Read a model from a checkpoint that ``cellfeed train`` wrote.

    Parameters
    ----------
    checkpoint
        Such as ``runs/NAME/checkpoints/best.ckpt``.
    device
        Where it computes: ``"cpu"``, ``"cuda"``, ...

    Raises
    ------
    NotFoundError, InputOutputError
        The file cannot be read.
    CorruptDataError
        It is damaged or no checkpoint of ours. Nothing in it is run.
    UnsupportedError
        It is of another version.
    InvalidArgumentError
        There is no such device.
    """
    where = _device_of(device)
    name = os.fspath(checkpoint)
    kept = read_checkpoint(name)
    specification = Specification.from_dict(kept[KEY].get("specification"), name)
    network = CellNetwork(specification)
    weights = {
        key.removeprefix("network."): value
        for key, value in kept.get("state_dict", {}).items()
        if key.startswith("network.")
    }
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        line = " ".join(str(error).split())
        raise CorruptDataError(f"{name}: its weights are not those of its model: {line}") from error
    try:
        there = network.to(where)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise InvalidArgumentError(f"device: {device!r} cannot be used here: {error}") from error
    return TrainedModel(specification, there.eval(), where)


def _device_of(device: str | torch.device) -> torch.device:
    try:
        there = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise InvalidArgumentError(
            f"device: {device!r} is none that PyTorch knows, such as 'cpu' or 'cuda'"
        ) from error
    if there.type == "meta":
        raise InvalidArgumentError("device: 'meta' computes nothing; 'cpu' is there")
    if there.type == "cuda" and (there.index or 0) >= torch.cuda.device_count():
        raise InvalidArgumentError(
            f"device: PyTorch sees {torch.cuda.device_count()} CUDA devices here, and {device!r} "
            "is none of them; 'cpu' is there"
        )
    return there


class TrainedModel:
    """A model that :func:`load` read.

    Attributes
    ----------
    specification
        What it is made of.
    vocab : GeneVocab
        Its genes; ``cf.open(paths, genes=model.vocab)`` gives cells with just these.
    classes
        Labels it predicts, by code; empty where it predicts none.
    """

    def __init__(
        self, specification: Specification, network: CellNetwork, device: torch.device
    ) -> None:
        self.specification = specification
        self.network = network
        self.device = device
        genes = zip(specification.genes, specification.gene_ids, strict=True)
        self.vocab = GeneVocab(dict(genes))

    def __repr__(self) -> str:
        chosen = self.specification
        what = f" of {chosen.label_key!r}" if chosen.is_classifier else ""
        return f"TrainedModel({chosen.architecture}{what}, {len(chosen.genes):,} genes)"

    @property
    def label_key(self) -> str | None:
        """The obs column it predicts."""
        return self.specification.label_key

    @property
    def classes(self) -> list[Label]:
        """Labels by code."""
        return list(self.specification.classes)

    def embed(
        self,
        cells: Data | CellCollection,
        *,
        batch_size: int = 1024,
        key: str = "X_cellfeed",
        force: bool = False,
        progress: Progress = False,
    ) -> anndata.AnnData:
        """Vectors of cells, read a batch at a time.

        Parameters
        ----------
        cells
            Files as for :func:`cellfeed.open`, an AnnData, or a collection that has the model's
            genes.
        batch_size
            Cells that are computed at once.
        key
            The name of the vectors.
        force
            Also where the values are of another kind than those trained on, or files record other
            steps: they are then taken as they are.
        progress
            As for :func:`cellfeed.convert_to_shards`.

        Returns
        -------
        anndata.AnnData
            The cells in their order, with obs and without X; ``obsm[key]`` is float32, (cells,
            d_model).

        Raises
        ------
        InvalidArgumentError
            Genes of the model are not in the collection, or hardly any is in the files; values are
            of another kind than those trained on; files record that other steps were done to their
            values than those of training, or only some files record these; there are no cells, or
            values of which the model makes no numbers.
        """
        key = as_text("key", key)
        opened = self._opened(cells)
        vectors = np.empty((len(opened), self.specification.d_model), dtype=np.float32)
        for rows, out in self._computed(opened, batch_size, force, progress):
            vectors[rows] = out["encoded"].float().cpu().numpy()
        adata = _without_x(opened)
        adata.obsm[key] = vectors
        return adata

    def predict(
        self,
        cells: Data | CellCollection,
        *,
        batch_size: int = 1024,
        force: bool = False,
        progress: Progress = False,
    ) -> anndata.AnnData:
        """Labels of cells, read a batch at a time.

        Parameters
        ----------
        cells, batch_size, force, progress
            As for :meth:`embed`.

        Returns
        -------
        anndata.AnnData
            The cells in their order, with obs and without X; ``obs["predicted_LABEL"]`` is
            categorical, ``obs["predicted_LABEL_probability"]`` float32, the softmax of the label
            predicted.

        Raises
        ------
        InvalidArgumentError
            The model predicts no labels; else as :meth:`embed`.
        """
        import pandas as pd

        if not self.specification.is_classifier:
            raise InvalidArgumentError("this model was trained without labels: use embed")
        opened = self._opened(cells)
        codes = np.empty(len(opened), dtype=np.int64)
        shares = np.empty(len(opened), dtype=np.float32)
        for rows, out in self._computed(opened, batch_size, force, progress):
            share, code = out["logits"].float().softmax(dim=1).max(dim=1)
            codes[rows], shares[rows] = code.cpu().numpy(), share.cpu().numpy()
        adata = _without_x(opened)
        name = f"predicted_{self.label_key}"
        if name in adata.obs:
            warnings.warn(
                f"the cells have an obs column {name!r} already: predictions take its place",
                UserWarning,
                stacklevel=2,
            )
        adata.obs[name] = pd.Categorical.from_codes(codes, categories=self.classes)
        adata.obs[f"{name}_probability"] = shares
        return adata

    def _opened(self, cells: Data | CellCollection) -> CellCollection:
        if not isinstance(cells, CellCollection):
            opened = open(cells, genes=self.vocab)
            require_cells(opened)
            require_same_species(opened, self.vocab)
            return opened
        if self.specification.tokens is not None:  # of the genes that there are
            require_same_species(cells, self.vocab)
            return cells
        there = set(cells.var_names)
        missing = [gene for gene in self.vocab.genes if gene not in there]
        if missing:
            raise InvalidArgumentError(
                f"{len(missing):,} genes of the model are not in this collection "
                f"({', '.join(missing[:3])}{', ...' if len(missing) > 3 else ''}): open it with "
                "cf.open(paths, genes=model.vocab), which reads absent genes as 0"
            )
        return cells

    @torch.inference_mode()
    def _computed(
        self, cells: CellCollection, batch_size: int, force: bool, progress: Progress
    ) -> Iterator[tuple[np.ndarray, dict[str, torch.Tensor]]]:
        processing = self.specification.processing()
        is_processed = processing.is_recorded(cells, force)
        if not force:
            require_values_as_trained(cells, self.specification, is_processed)
            processing.require_alike(cells, self.specification.recorded)
        transforms = [] if is_processed else processing.transforms(force)
        options: dict[str, Any] = {"output": "dense"}
        tokens = self.specification.token_output_of_cells()
        if tokens is not None:
            options = {"output": "tokens", "tokens": tokens}
        # Of tokens the order of genes tells too: which of equal values come first, and are kept.
        there = set(cells.var_names)
        genes = [gene for gene in self.specification.genes if gene in there]
        if list(cells.var_names) != genes:
            transforms.append(SelectGenes(genes))
        loader: Loader[Any] = Loader(
            cells, Streaming(), as_int("batch_size", batch_size, 1), obs=(), transforms=transforms,
            rank=0, world_size=1, pin_memory=self.device.type == "cuda" and can_pin(), **options,
        )  # fmt: skip
        shown, done = as_progress_callback(progress, "cells"), 0
        with loader:
            for batch in loader:
                out = self.network(batch.to(self.device, non_blocking=True))
                _require_finite(out["encoded"], batch.index)
                yield batch.index, out
                done += len(batch)
                if shown is not None:
                    shown("computing", done, len(cells), loader.stats()["cells_per_second"])


def _require_finite(vectors: torch.Tensor, rows: np.ndarray) -> None:
    is_bad = ~vectors.isfinite().all(dim=1)
    if is_bad.any():
        raise InvalidArgumentError(
            f"the model makes no numbers of cell {rows[int(is_bad.int().argmax())]} "
            f"({int(is_bad.sum()):,} such cells in a batch of {len(rows):,}): look for values of X "
            "that are NaN, infinite or far larger than those of the training cells"
        )


def _without_x(cells: CellCollection) -> anndata.AnnData:
    import anndata

    return anndata.AnnData(obs=cells.obs.df)
