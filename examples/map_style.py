"""Single cells through a torch DataLoader, for code that wants a map-style dataset."""

from __future__ import annotations

import torch
from _atlas import parse_output_dir, write_atlas

from cellfeed.data.dataset import ShardedCellDataset
from cellfeed.data.gene_selection import collate_cells
from cellfeed.data.memmap_store import MemoryMappedStore
from cellfeed.data.sharding import convert_to_shards, validate_shard_dir
from cellfeed.data.vocab import GeneVocab

folder = parse_output_dir(__doc__)
paths = write_atlas(folder)

vocab = GeneVocab.from_adata(paths, n_genes=100)
vocab.save(folder / "genes.json")
convert_to_shards(paths, folder / "shards", gene_vocab=vocab, shard_size=500, overwrite=True)
validate_shard_dir(folder / "shards")

dataset = ShardedCellDataset(store=MemoryMappedStore(folder / "shards"), gene_vocab=vocab)
cell = dataset[0]
print(f"cell 0: {cell.n_genes} genes, {vocab.decode(cell.gene_ids[:3])}, ..., {cell.metadata}")

batches = torch.utils.data.DataLoader(
    dataset, batch_size=128, shuffle=True, collate_fn=collate_cells
)
for batch in batches:
    print({key: tuple(value.shape) for key, value in batch.items() if key != "metadata"})
