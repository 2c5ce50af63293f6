"""Files with different genes as one collection: join, normalise, select genes, keep labels."""

from __future__ import annotations

from _atlas import parse_output_dir, write_atlas

import cellfeed as cf

folder = parse_output_dir(__doc__)
paths = write_atlas(folder)

# The sorted union of the genes; absent genes read as 0. join="inner" keeps the common ones.
cells = cf.open(paths, join="outer", obs=["cell_type", "donor"])
print(cells)

markers = ["gene60", "gene10", "gene240"]
loader = cf.Loader(
    cells,
    cf.BlockShuffling(block_size=16),
    batch_size=256,
    # The total is that of all genes of a cell, also of those that are not selected.
    transforms=[cf.NormalizeTotal(1e4), cf.Log1p(), cf.SelectGenes(markers)],
    output="dense",
    seed=0,
)
for batch in loader:
    types = batch.obs.labels("cell_type")
    print(
        f"{batch.x.shape}, mean of {markers[0]}: {batch.x[:, 0].mean():.3f}, first is a {types[0]}"
    )

# Any rows at any time, outside of an epoch.
print(cells[[3, 1, 2]].to_anndata())
