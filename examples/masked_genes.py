"""Hide some genes of each cell, learn which they are, and look at the vectors that come of it.

Counts of the 700 labelled PBMC that scanpy brings along; no labels are used for training.
"""

from __future__ import annotations

import logging
import pathlib
import warnings

import numpy as np
from _atlas import parse_output_dir, write_pbmc_counts

from cellfeed.training import load, train

CONFIG = """
data:
  paths: [{counts}]
  preprocessing: {{normalize: true, log_transform: true}}
  split: {{val: 0.1}}

tokenizer:
  strategy: rank_value
  max_length: 128

model:
  architecture: transformer_encoder
  d_model: 32
  n_layers: 2
  n_heads: 4

training:
  objective: masked_genes
  mask_fraction: 0.15
  batch_size: 32
  num_epochs: 2
  learning_rate: 0.003
"""


def neighbours_alike(vectors: np.ndarray, labels: np.ndarray) -> float:
    """Share of cells whose nearest other cell has their label."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    likeness = unit @ unit.T
    np.fill_diagonal(likeness, -np.inf)
    return float((labels == labels[likeness.argmax(axis=1)]).mean())


def main() -> None:
    folder: pathlib.Path = parse_output_dir(__doc__)
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    config = folder / "masked_genes.yaml"
    config.write_text(CONFIG.format(counts=write_pbmc_counts(folder)))
    name, runs_dir = "masked_genes", folder / "runs"
    report = train(config, name=name, runs_dir=runs_dir, resume="auto", progress=False)
    losses = [loss for row in report["history"] if (loss := row.get("val_loss")) is not None]
    print(f"loss of hidden genes: {losses[0]:.2f} after one epoch, {losses[-1]:.2f} at the end")

    model = load(runs_dir / name / "checkpoints" / "best.ckpt")
    adata = model.embed(folder / "counts.h5ad")
    labels = adata.obs["bulk_labels"].cat.codes.to_numpy()
    found = neighbours_alike(adata.obsm["X_cellfeed"], labels)
    by_chance = float((np.bincount(labels) / len(labels)) @ (np.bincount(labels) / len(labels)))
    print(f"nearest neighbours of one label: {found:.2f}, and {by_chance:.2f} by chance")
    if losses[-1] >= losses[0]:
        raise SystemExit("nothing was learned")


if __name__ == "__main__":
    main()
