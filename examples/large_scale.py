"""A large atlas from counts to labels, each step a command: preprocess, shard, train, predict.

An atlas of 2,000 cells is simulated from the counts of the 700 labelled PBMC that scanpy brings
along; copies of one real cell are of one part.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import anndata
from _atlas import parse_output_dir, write_pbmc_counts

N_CELLS = 2_000
LABEL = "bulk_labels"
BASE = """
data:
  vocab: {n_genes: 400}
  preprocessing: {normalize: true, log_transform: true}
"""
# Values of the shards are normalised already, and say so.
TRAIN = """
data:
  source: local
  shards: {enabled: true, shard_dir: shards}
  split: {val: 0.1, test: 0.1, by: cell}
  gene_selection: {strategy: most_expressed, n_genes: 256}

training:
  label_key: bulk_labels
  batch_size: 64
  num_epochs: 4
  learning_rate: 0.008
  accumulate_grad_batches: 2
  sampling:
    strategy: weighted
    label_key: bulk_labels
    curriculum_warmup_epochs: 1

model:
  architecture: transformer_encoder
  d_model: 32
  n_layers: 1
  n_heads: 4

tokenizer:
  strategy: binned
  max_length: 96
"""


def run(*command: object) -> str:
    """One command of the program; its stdout."""
    program = pathlib.Path(sys.executable).with_name("cellfeed")
    print("$ cellfeed", *command, flush=True)
    arguments = [str(program), *map(str, command), "--quiet"]
    done = subprocess.run(arguments, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.returncode)
    return done.stdout


def main() -> None:
    folder = parse_output_dir(__doc__)
    write_pbmc_counts(folder)
    os.chdir(folder)
    pathlib.Path("base_config.yaml").write_text(BASE)
    pathlib.Path("train_large_atlas.yaml").write_text(TRAIN)
    run("simulate", "--like", "counts.h5ad", "--cells", N_CELLS, "--output", "atlas.h5ad",
        "--overwrite")  # fmt: skip
    run("shard", "atlas.h5ad", "--config", "base_config.yaml", "--output-dir", "shards",
        "--shard-size", 500, "--overwrite")  # fmt: skip
    said = run("train", "--config", "train_large_atlas.yaml", "--resume", "auto", "--json")
    report = json.loads(said)
    scores, loader = report["scores"]["test"], report["loader"]
    print(f"test: macro F1 {scores['macro_f1']:.2f} of {scores['n_cells']} cells")
    print(f"entropy of labels in a batch: {loader['label_entropy_bits']:.2f} bits, "
          f"{loader['label_entropy_bits_at_random']:.2f} without weights")  # fmt: skip
    run("predict", "runs/train_large_atlas/checkpoints/best.ckpt", "shards", "--output",
        "labels.h5ad", "--overwrite")  # fmt: skip
    obs = anndata.read_h5ad("labels.h5ad").obs
    right = (obs[LABEL].astype(str) == obs[f"predicted_{LABEL}"].astype(str)).mean()
    print(f"{right:.2f} of all {len(obs):,} cells have their label")
    if right < 0.4:
        raise SystemExit("the model has learned too little")


if __name__ == "__main__":
    main()
