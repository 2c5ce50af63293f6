"""A transformer encoder over the gene tokens of cells; torch alone."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from .._torch import TokenTensors
from ._specification import Specification

# What Masking puts in the place of a value.
HIDDEN_VALUE = -1.0


class Block(nn.Module):
    """Attention and a feed-forward layer, each after a layer norm (Xiong et al. 2020).

    Parameters
    ----------
    d_model, n_heads
        Width, and heads that share it.
    dropout
        Share of activations that are dropped while training.
    """

    def __init__(self, d_model: int, n_heads: int, dropout: float) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.dropout = dropout
        self.norm_attention = nn.LayerNorm(d_model)
        self.query_key_value = nn.Linear(d_model, 3 * d_model)
        self.join = nn.Linear(d_model, d_model)
        self.norm_forward = nn.LayerNorm(d_model)
        self.feed_forward = nn.Sequential(
            nn.Linear(d_model, 4 * d_model), nn.GELU(), nn.Dropout(dropout),
            nn.Linear(4 * d_model, d_model), nn.Dropout(dropout),
        )  # fmt: skip

    def forward(self, x: torch.Tensor, is_seen: torch.Tensor) -> torch.Tensor:
        """Mix tokens of each cell.

        Parameters
        ----------
        x
            (cells, tokens, d_model).
        is_seen
            bool (cells, 1, 1, tokens): False for padding.
        """
        n_cells, n_tokens, width = x.shape
        parts = self.query_key_value(self.norm_attention(x))
        parts = parts.view(n_cells, n_tokens, 3, self.n_heads, width // self.n_heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=is_seen, dropout_p=self.dropout if self.training else 0.0
        )
        x = x + self.join(mixed.transpose(1, 2).reshape(n_cells, n_tokens, width))
        out: torch.Tensor = x + self.feed_forward(self.norm_forward(x))
        return out


class GeneTransformer(nn.Module):
    """Tokens of cells -> (cells, tokens, d_model); the first token of a cell stands for all of it.

    A token is its gene's vector, and the vector of its place among the others (rank tokens) or of
    its value (binned and continuous ones).

    Parameters
    ----------
    specification
        What to make.
    """

    def __init__(self, specification: Specification) -> None:
        super().__init__()
        chosen = specification
        width = chosen.d_model
        self.value_scale = chosen.value_scale
        self.genes = nn.Embedding(chosen.n_token_ids, width, padding_idx=0)
        nn.init.normal_(self.genes.weight, std=width**-0.5)
        is_rank = chosen.tokens == "rank_value"
        self.places = nn.Embedding(chosen.max_length, width) if is_rank else None
        self.values = None if is_rank else nn.Sequential(
            nn.Linear(2, width), nn.GELU(), nn.Linear(width, width)
        )  # fmt: skip
        if self.places is not None:
            nn.init.normal_(self.places.weight, std=width**-0.5)
        self.dropout = nn.Dropout(chosen.dropout)
        self.blocks = nn.ModuleList(
            Block(width, chosen.n_heads, chosen.dropout) for _ in range(chosen.n_layers)
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, batch: TokenTensors) -> torch.Tensor:
        """Encode tokens.

        Parameters
        ----------
        batch
            Has ``input_ids``, ``values`` and ``attention_mask``, (cells, tokens).
        """
        x = self.genes(batch.input_ids)
        if self.places is not None:
            x = x + self.places.weight[: x.shape[1]]
        if self.values is not None:
            is_hidden = batch.values == HIDDEN_VALUE
            known = as_weights(batch.values, self.values).masked_fill(is_hidden, 0.0)
            known = known * self.value_scale
            x = x + self.values(torch.stack([known, is_hidden.to(known.dtype)], dim=-1))
        x = self.dropout(x)
        is_seen = batch.attention_mask[:, None, None, :]
        for block in self.blocks:
            x = block(x, is_seen)
        out: torch.Tensor = self.norm(x)
        return out


def as_weights(values: torch.Tensor, layers: nn.Module) -> torch.Tensor:
    """Values in the type of the layers that take them; whole models may be of half precision.

    Parameters
    ----------
    values
        float.
    layers
        Have weights.
    """
    # Quantized layers have none, and take what there is.
    weights = next((p for p in layers.parameters() if p.is_floating_point()), None)
    return values if weights is None else values.to(weights.dtype)
