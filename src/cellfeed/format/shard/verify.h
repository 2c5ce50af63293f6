// verify: every byte of a shard directory against its checksums.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/format/row_store.h"
#include "cellfeed/format/shard/manifest.h"

namespace cellfeed::format::shard {

struct Damage {
  std::string file;           // name inside the directory
  std::int64_t shard = -1;    // -1: not of one shard
  std::int64_t segment = -1;  // -1: not inside a segment
  std::int64_t begin = 0;     // bytes [begin, end) of the file hold the damage
  std::int64_t end = 0;
  std::string what;
};

// "shard_000007.cells, shard 7, segment 2, bytes 0 to 9: what", of what is known.
std::string describe(const Damage& damage);

// bytes_done grows to bytes_total; called from the threads of `parallel`, one at a time.
using VerifyProgress = std::function<void(std::int64_t bytes_done, std::int64_t bytes_total)>;

// Empty when every byte is as written. Damaged files never throw; a directory without a manifest
// does (kNotFound).
std::vector<Damage> verify_shard_dir(const std::string& dir, const VerifyProgress& progress = {},
                                     const ParallelFor& parallel = run_serially);

// The same for the files of some shards, whatever else lies there; what is missing or cannot be
// read is damaged. What progress throws stops it: kCancelled.
std::vector<Damage> verify_shards(const std::string& dir, std::span<const ShardEntry> shards,
                                  const VerifyProgress& progress = {},
                                  const ParallelFor& parallel = run_serially);

// The same for one .cells file that no manifest speaks of. entry.checksum: of its header.
std::vector<Damage> verify_cells_file(const std::string& dir, const FileEntry& entry,
                                      const VerifyProgress& progress = {});

}  // namespace cellfeed::format::shard
