// PackedStore: a store that decodes slowly, and keeps the rows it gives as packed records on a
// local disk, from where it gives them from then on. Batches are the same either way. Thread-safe,
// fork-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/collection/collection.h"
#include "cellfeed/convert/cache/packed_log.h"
#include "cellfeed/convert/cache/packed_shards.h"
#include "cellfeed/exec/fork_guard.h"
#include "cellfeed/format/forwarding_store.h"

namespace cellfeed::convert {

class PackedStore final : public format::ForwardingStore {
 public:
  enum class Shards { kAreWritten, kAreNot };  // once all rows are kept
  PackedStore(std::shared_ptr<const format::RowStore> source, std::shared_ptr<PackedLog> log,
              Shards shards = Shards::kAreWritten);

  // Once all rows are kept, nothing is inflated any more.
  const format::StoreInfo& info() const override {
    return log_->is_complete() ? complete_info_ : info_;
  }
  std::unique_ptr<format::FetchedRows> begin(std::span<const std::int64_t> rows,
                                             const format::ReadContext& context) const override;
  format::ReadPlan plan(std::span<const std::int64_t> rows) const override;

  PackedLog& log() const { return *log_; }
  // Where all rows are kept: the directory of their shards, once these are whole. Else empty.
  // Throws what writing them throws.
  std::string shards_dir(const std::stop_token& stop = {}) const;

 private:
  struct Split;
  std::shared_ptr<const PackedStore> without_shards() const {
    return std::make_shared<const PackedStore>(store_, log_, Shards::kAreNot);
  }
  std::unique_ptr<format::FetchedRows> begin_kept(const Split& split) const;
  bool drop_damaged(
      const Split& split,
      const std::vector<std::shared_ptr<const format::shard::CellsFile>>& files) const;
  void begin_shards() const;
  Split split(std::span<const std::int64_t> rows) const;
  void require_row(std::int64_t row) const;

  const std::shared_ptr<PackedLog> log_;
  format::StoreInfo info_;
  format::StoreInfo complete_info_;
  mutable std::atomic<bool> has_let_go_{false};  // of chunks of the source
  const bool writes_shards_;
  const std::uint64_t generation_ = exec::fork_generation();
  mutable exec::PerProcess<std::unique_ptr<PackedShards>> shards_;
};

// Stores whose rows are worth keeping: those compressed in chunks, and those of remote files; none
// that are packed already.
bool is_worth_packing(const format::RowStore& store);

// A collection of which such stores keep their rows in `dir` (as RowCacheOptions::dir).
// Throws what opening a collection and making folders throws; kCorruptData where a file changes
// meanwhile.
std::shared_ptr<const collection::Collection> open_packed(
    const std::vector<std::string>& paths, const collection::CollectionOptions& options,
    const std::string& dir, const PackedLogOptions& log = {});

// Of all stores of the collection that keep rows: returns when they are written.
void flush_packed(const collection::Collection& cells);
// Their shards_dir(), of those that have one.
std::vector<std::string> packed_shards(const collection::Collection& cells,
                                       const std::stop_token& stop = {});
// What went wrong since it was last asked for, a line for each store.
std::vector<std::string> take_packed_warnings(const collection::Collection& cells);

}  // namespace cellfeed::convert
