"""Stop in the middle of an epoch, save a few numbers, go on with exactly what is left."""

from __future__ import annotations

import json

from _atlas import parse_output_dir, write_atlas

import cellfeed as cf


def make_loader(shards) -> cf.Loader:
    return cf.Loader(cf.open(shards), cf.BlockShuffling(block_size=4), batch_size=100, seed=7)


folder = parse_output_dir(__doc__)
shards = folder / "shards"
cf.convert_to_shards(
    cf.open(write_atlas(folder), join="outer"), shards, shard_size=400, overwrite=True
)

undisturbed = [batch.index.tolist() for batch in make_loader(shards)]

loader = make_loader(shards)
seen = []
for batch in loader:
    seen.append(batch.index.tolist())
    if len(seen) == 5:
        break
saved = json.dumps(loader.state_dict())
print(f"stopped after {len(seen)} batches; what is saved: {saved}")

resumed = make_loader(shards)  # in a new process, say
resumed.load_state_dict(json.loads(saved))
seen += [batch.index.tolist() for batch in resumed]
if seen != undisturbed:
    raise SystemExit("the resumed epoch differs from an undisturbed one")
print(f"all {len(seen)} batches are those of an undisturbed epoch")
