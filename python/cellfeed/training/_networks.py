"""Networks that turn batches of cells into vectors, one a cell; torch alone."""

from __future__ import annotations

from typing import TypeAlias, cast

import torch
from torch import nn

from .._torch import TensorBatch, TokenTensors
from ._specification import Specification
from ._transformer import GeneTransformer, as_weights

# What a network is given: values, or tokens.
CellTensors: TypeAlias = TensorBatch | TokenTensors


class MLP(nn.Module):
    """Dense values of all genes -> (cells, d_model): linear layers with GELU between them.

    Parameters
    ----------
    n_genes
        Columns of a batch.
    d_model
        Width of each layer, and of what comes out.
    n_layers
        Linear layers.
    dropout
        Share of activations that are dropped while training.
    """

    def __init__(self, n_genes: int, d_model: int, n_layers: int, dropout: float) -> None:
        super().__init__()
        widths = [n_genes, *([d_model] * n_layers)]
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(wide, d_model), nn.GELU(), nn.Dropout(dropout))
            for wide in widths[:-1]
        )

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Encode cells.

        Parameters
        ----------
        values
            float, (cells, n_genes).
        """
        for block in self.blocks:
            values = block(values)
        return values


class CellNetwork(nn.Module):
    """An encoder of cells and the heads upon it.

    Parameters
    ----------
    specification
        What to make; weights are new.
    """

    def __init__(self, specification: Specification) -> None:
        super().__init__()
        chosen = specification
        self.encoder: MLP | GeneTransformer
        if chosen.architecture == "mlp":
            self.encoder = MLP(len(chosen.genes), chosen.d_model, chosen.n_layers, chosen.dropout)
        else:
            self.encoder = GeneTransformer(chosen)
        n_classes = len(chosen.classes)
        self.label_head = nn.Linear(chosen.d_model, n_classes) if n_classes else None
        n_hidden = {None: 0, "genes": chosen.n_token_ids, "values": 1}[chosen.predicts]
        self.hidden_head = nn.Sequential(
            nn.Linear(chosen.d_model, chosen.d_model), nn.GELU(),
            nn.Linear(chosen.d_model, n_hidden),
        ) if n_hidden else None  # fmt: skip

    def forward(self, batch: CellTensors) -> dict[str, torch.Tensor]:
        """What is made of a batch, by name.

        ``encoded``, (cells, d_model); of a classifier ``logits``, (cells, classes); where tokens
        are hidden ``hidden``, of these in their order: (hidden, numbers of the vocabulary), or
        (hidden, 1) of values.

        Parameters
        ----------
        batch
            A :class:`~cellfeed._torch.TensorBatch`, or for a transformer one of tokens.
        """
        if isinstance(self.encoder, MLP):
            out = {"encoded": self.encoder(as_weights(batch["X"], self.encoder))}
        else:
            tokens = self.encoder(batch)
            out = {"encoded": tokens[:, 0]}
            is_hidden = hidden_of(cast(TokenTensors, batch))
            if self.hidden_head is not None and is_hidden is not None:
                out["hidden"] = self.hidden_head(tokens[is_hidden])
        if self.label_head is not None:
            out["logits"] = self.label_head(out["encoded"])
        return out


def hidden_of(batch: TokenTensors) -> torch.Tensor | None:
    """Which tokens are to be predicted, bool (cells, tokens); None without masking.

    Parameters
    ----------
    batch
        Of tokens.
    """
    if batch.value_labels is not None:
        return ~torch.isnan(batch.value_labels)
    return None if batch.labels is None else batch.labels >= 0
