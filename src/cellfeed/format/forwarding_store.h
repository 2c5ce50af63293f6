// ForwardingStore: the same rows, genes and obs as another store. A base for stores that change
// some of these.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cellfeed/format/row_store.h"

namespace cellfeed::format {

class ForwardingStore : public RowStore {
 public:
  explicit ForwardingStore(std::shared_ptr<const RowStore> store) : store_(std::move(store)) {}
  const StoreInfo& info() const override { return store_->info(); }
  const matrix::GeneAxis& genes() const override { return store_->genes(); }
  std::unique_ptr<FetchedRows> begin(std::span<const std::int64_t> rows,
                                     const ReadContext& context) const override {
    return store_->begin(rows, context);
  }
  ReadPlan plan(std::span<const std::int64_t> rows) const override { return store_->plan(rows); }
  std::optional<PackedRecords> packed_records(std::int64_t begin, std::int64_t end) const override {
    return store_->packed_records(begin, end);
  }
  void release_pages() const override { store_->release_pages(); }
  void set_cache_bytes(std::int64_t bytes) const override { store_->set_cache_bytes(bytes); }
  std::vector<std::string> obs_names() const override { return store_->obs_names(); }
  matrix::FixedColumn obs_column(const std::string& name) const override {
    return store_->obs_column(name);
  }
  std::shared_ptr<arrow::Table> read_obs(std::int64_t begin, std::int64_t end) const override {
    return store_->read_obs(begin, end);
  }
  std::optional<matrix::FixedColumn> known_library_sizes() const override {
    return store_->known_library_sizes();
  }
  std::shared_ptr<arrow::Table> read_var() const override { return store_->read_var(); }
  Processing processing() const override { return store_->processing(); }
  std::vector<std::int64_t> source_rows(std::span<const std::int64_t> rows) const override {
    return store_->source_rows(rows);
  }
  std::uint64_t fingerprint() const override { return store_->fingerprint(); }
  std::shared_ptr<const io::SeenFiles> seen_files() const override { return store_->seen_files(); }
  std::uint64_t whole_fingerprint() const override { return store_->whole_fingerprint(); }

 protected:
  const std::shared_ptr<const RowStore> store_;
};

}  // namespace cellfeed::format
