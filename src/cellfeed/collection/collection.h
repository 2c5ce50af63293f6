// Collection: many stores as one table of cells; global row <-> (store, row), one gene axis, obs
// columns by name. Thread-safe: immutable but for the obs columns, which are read on demand under a
// lock.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/collection/gene_join.h"
#include "cellfeed/collection/obs_join.h"
#include "cellfeed/format/row_store.h"

namespace cellfeed::collection {

// What reading rows of a store takes and gives. Whoever reads a collection knows these, and no
// format.
using format::CsrSink;
using format::FetchedRows;
using format::ParallelFor;

struct CollectionOptions {
  Join join = Join::kNone;
  std::vector<std::string> genes{};  // the axis, for Join::kFixed
  bool make_unique = false;          // number repeated gene names instead of refusing them
  format::OpenOptions open{};
};

class Collection : public std::enable_shared_from_this<Collection> {
 public:
  // Throws what open_stores and join_genes throw; kInvalidArgument for an empty list.
  static std::shared_ptr<const Collection> open(const std::vector<std::string>& paths,
                                                const CollectionOptions& options);
  Collection(std::vector<std::unique_ptr<format::RowStore>> stores,
             const CollectionOptions& options);

  std::int64_t n_rows() const { return offsets_.back(); }
  std::int64_t n_stores() const { return static_cast<std::int64_t>(stores_.size()); }
  const format::RowStore& store(std::int64_t s) const { return *stores_[s]; }
  // First global row of each store, and n_rows() last.
  std::span<const std::int64_t> offsets() const { return offsets_; }
  const matrix::GeneAxis& genes() const { return genes_; }
  // Store column -> joined column (-1 = dropped); empty where the store has the joined axis itself.
  std::span<const std::int32_t> gene_map(std::int64_t s) const;

  // REQUIRES: 0 <= row < n_rows().
  RowPlace locate(std::int64_t row) const;

  std::vector<std::string> obs_names() const;  // the union over stores, first seen first
  // Throws kNoSuchKey when no store has the column, naming those there are.
  std::shared_ptr<const JoinedColumn> obs_column(const std::string& name) const;

  // What all compressed stores hold once inflated; 0 where none is compressed in chunks.
  std::int64_t inflated_bytes() const;
  // Shares the bytes among the compressed stores by what they hold. The last caller decides.
  void set_cache_bytes(std::int64_t bytes) const;

  // Changes with any of the files, their order or the gene axis.
  std::uint64_t fingerprint() const { return fingerprint_; }

 private:
  std::vector<std::unique_ptr<format::RowStore>> stores_;
  std::vector<std::int64_t> offsets_;
  matrix::GeneAxis genes_;
  std::vector<std::shared_ptr<const std::vector<std::int32_t>>> maps_;
  std::uint64_t fingerprint_ = 0;
  mutable std::mutex obs_mutex_;
  mutable std::map<std::string, std::shared_ptr<const JoinedColumn>> obs_;
};

}  // namespace cellfeed::collection
