// PackedShards: the rows of a PackedLog, once all are there, as a shard directory in its folder.
// They are written on a thread of its own, once nobody reads for a while; a process that
// ends before lets the next one begin again. Thread-safe. Lives in one process.
#pragma once

#include <memory>
#include <stop_token>
#include <thread>

#include "cellfeed/convert/cache/packed_log.h"
#include "cellfeed/format/row_store.h"

namespace cellfeed::convert {

// Held in the folder of the log while they are written.
inline constexpr const char* kPackedShardsLock = ".shards.lock";

// store: gives all rows of the log, and what else shards hold. False where another process or
// thread writes them just now. Throws what converting throws, and kCorruptData where the file
// changed. REQUIRES: log.is_complete().
bool write_packed_shards(const std::shared_ptr<const format::RowStore>& store, PackedLog& log,
                         const std::stop_token& stop = {});

// The same, once nobody has read for a while.
class PackedShards {
 public:
  PackedShards(std::shared_ptr<const format::RowStore> store, std::shared_ptr<PackedLog> log);
  ~PackedShards();  // stops

 private:
  bool wait_until_idle() const;
  void run() const;

  const std::shared_ptr<const format::RowStore> store_;
  const std::shared_ptr<PackedLog> log_;
  std::stop_source stop_;
  std::jthread thread_;
};

}  // namespace cellfeed::convert
