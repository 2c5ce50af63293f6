// ShardBase: finished shards that cells are appended to, and what of them the new shards follow.
// Thread-safe: immutable.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cellfeed/convert/inputs/sources.h"
#include "cellfeed/format/shard/manifest.h"
#include "cellfeed/format/shard/shard_directory.h"

namespace cellfeed::convert {

struct ShardBase {
  std::shared_ptr<const format::shard::ShardDirectory> directory;
  format::shard::Manifest manifest;
  // Of the shards that were written first, and of each append: the shards of one have the same
  // columns and categories. Without where cells come from, which each shard says of its own.
  std::vector<ObsSample> obs;

  const std::string& dir() const { return directory->dir(); }
  const std::vector<std::string>& genes() const { return directory->genes().names; }
  // Number of the first shard behind them.
  std::int64_t end_shard() const;
  // Of the cells that obs[part] is of: the first, and the end.
  std::int64_t part_begin(std::size_t part) const;
  std::int64_t part_end(std::size_t part) const;
  // Changes with every byte of the shards and genes.
  std::uint64_t fingerprint() const;
};

// Throws what reading a shard directory throws.
std::shared_ptr<const ShardBase> open_base(const std::string& dir);
// Keeps the directory.
std::shared_ptr<const collection::GeneTable> gene_table(const ShardBase& base);
// What was there before the last append. REQUIRES: there was one.
std::shared_ptr<const ShardBase> before_last_append(const ShardBase& base);

}  // namespace cellfeed::convert
