"""What a configuration and its data come to: the specification of a model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..collection import CellCollection
from ..config import Config
from ..errors import InvalidArgumentError
from ..loader import Loader
from ..strategies import Streaming
from ..transforms import Transform
from ..vocab import GeneVocab
from ._checks import classes_of, kind_of_values, some_rows
from ._data_module import CellDataModule
from ._processing import Processing
from ._specification import Specification


def specification_of(config: Config, data: CellDataModule) -> Specification:
    """The specification of a new model.

    Parameters
    ----------
    config
        What to make.
    data
        Set up.

    Raises
    ------
    InvalidArgumentError
        An MLP without labels; a label column with one label; nothing is to be done to values, and
        files record that different steps were.
    NoSuchKeyError, InvalidTypeError
        There is no such label column, or it holds numbers.
    """
    model, train = config.model, data.parts["train"]
    learns_labels, learns_hidden = _objectives(config)
    label_key = config.training.label_key if learns_labels else None
    vocab = data.genes
    if not isinstance(vocab, GeneVocab):
        vocab = GeneVocab.from_genes(data.cells.var_names)
    processing = Processing.of_config(config)
    specification = Specification(
        architecture=model.architecture,
        d_model=model.d_model,
        n_layers=model.n_layers,
        n_heads=model.n_heads,
        dropout=model.dropout,
        genes=[str(gene) for gene in vocab.genes],
        gene_ids=[int(number) for number in vocab.gene_ids],
        values=_kind_before(processing, data),
        recorded={} if processing.transforms() else Processing.recorded_by(data.cells),
        label_key=label_key,
        classes=[] if label_key is None else classes_of(train, label_key),
        normalize_to=processing.normalize_to,
        log_transform=processing.log_transform,
        **_of_tokens(config, learns_hidden),
    )
    if specification.gene_selection != "most_expressed":
        return specification
    left = [] if data.is_processed else processing.transforms()
    return replace(specification, kept_genes=_most_expressed(train, specification, left))


def _kind_before(processing: Processing, data: CellDataModule) -> str | None:
    """Of values before what is asked for was done to them."""
    now = kind_of_values(data.parts["train"])
    if not data.is_processed:
        return now
    return None if processing.normalize_to is None else "counts"  # nothing else is normalised


def _objectives(config: Config) -> tuple[bool, bool]:
    """Whether labels are learned, and whether hidden tokens are."""
    training, is_mlp = config.training, config.model.architecture == "mlp"
    if is_mlp and training.label_key is None:
        raise InvalidArgumentError(
            f"{config.path}: an mlp learns labels: give training.label_key, the obs column"
        )
    if training.objective == "auto":
        return training.label_key is not None, training.label_key is None
    return (
        training.objective in ("classification", "both"),
        training.objective in ("masked_genes", "both"),
    )


def _of_tokens(config: Config, learns_hidden: bool) -> dict[str, Any]:
    if config.model.architecture == "mlp":
        return {}
    strategy, selection = config.tokenizer.strategy, config.data.gene_selection
    predicts = "genes" if strategy == "rank_value" else "values"
    return {
        "tokens": strategy,
        "max_length": config.tokenizer.max_length,
        "gene_selection": selection.strategy,
        "n_selected": selection.n_genes,
        "predicts": predicts if learns_hidden else None,
    }


def _most_expressed(
    train: CellCollection, specification: Specification, transforms: list[Transform]
) -> list[str]:
    """Genes with the largest sums over some cells, after the transforms, as batches choose them."""
    loader: Loader[Any] = Loader(
        train.filter(some_rows(train)), Streaming(), 256, obs=(), output="csr", rank=0,
        world_size=1, transforms=transforms,
    )  # fmt: skip
    with loader:
        sums = sum(np.asarray(batch.x.sum(axis=0, dtype=np.float64)).ravel() for batch in loader)
    sum_of = dict(zip(map(str, train.var_names), np.asarray(sums).tolist(), strict=True))
    id_of = dict(zip(specification.genes, specification.gene_ids, strict=True))
    expressed = [gene for gene in specification.genes if sum_of.get(gene, 0.0) > 0]
    expressed.sort(key=lambda gene: (-sum_of[gene], id_of[gene]))
    return expressed[: specification.n_selected]
