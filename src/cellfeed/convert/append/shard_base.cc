#include "cellfeed/convert/append/shard_base.h"

#include <arrow/api.h>

#include <algorithm>
#include <span>
#include <utility>

#include "cellfeed/format/shard/checksum.h"
#include "cellfeed/format/shard/manifest_json.h"
#include "cellfeed/format/shard/obs/obs_schema.h"
#include "cellfeed/format/shard/obs/shard_obs.h"

namespace cellfeed::convert {

namespace shard = format::shard;

std::int64_t ShardBase::end_shard() const {
  std::int64_t end = 0;
  for (const shard::ShardEntry& shard : manifest.shards) end = std::max(end, shard.shard + 1);
  return end;
}

std::int64_t ShardBase::part_begin(std::size_t part) const {
  return part == 0 ? 0 : manifest.appends[part - 1].first_cell;
}

std::int64_t ShardBase::part_end(std::size_t part) const {
  return part == manifest.appends.size() ? manifest.n_cells : manifest.appends[part].first_cell;
}

std::uint64_t ShardBase::fingerprint() const {
  std::string text = shard::file_to_json(manifest.genes).dump();
  for (const shard::ShardEntry& shard : manifest.shards) text += shard::shard_to_json(shard).dump();
  return shard::checksum_bytes(std::as_bytes(std::span(text)));
}

std::shared_ptr<const ShardBase> open_base(const std::string& dir) {
  auto base = std::make_shared<ShardBase>();
  base->directory = std::make_shared<const shard::ShardDirectory>(dir);
  base->manifest = base->directory->manifest();
  for (std::size_t part = 0; part <= base->manifest.appends.size(); ++part) {
    const std::int64_t begin = base->part_begin(part);
    const auto first =
        std::ranges::find(base->manifest.shards, begin, &shard::ShardEntry::first_cell);
    if (first == base->manifest.shards.end()) continue;
    const auto rows =
        shard::ShardObs(base->directory, *first).read(0, std::min<std::int64_t>(1, first->n_cells));
    base->obs.push_back(
        {drop_columns(*rows, {shard::kSourceFileColumn, shard::kSourceRowColumn}), dir});
  }
  return base;
}

std::shared_ptr<const collection::GeneTable> gene_table(const ShardBase& base) {
  return std::make_shared<const collection::GeneTable>(
      &base.directory->genes(), nullptr, base.dir(),
      [directory = base.directory] { return directory->var(); });
}

std::shared_ptr<const ShardBase> before_last_append(const ShardBase& base) {
  auto before = std::make_shared<ShardBase>(base);
  before->manifest = shard::without_last_append(before->manifest);
  before->obs.pop_back();
  return before;
}

}  // namespace cellfeed::convert
