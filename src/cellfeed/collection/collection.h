// Collection: many stores as one table of cells; global row <-> (store, row), one gene axis, obs
// columns by name. Thread-safe: immutable but for the obs columns, which are read on demand under a
// lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/base/fork_safe_mutex.h"
#include "cellfeed/collection/gene_join.h"
#include "cellfeed/collection/obs_join.h"
#include "cellfeed/collection/repeated_genes.h"
#include "cellfeed/collection/row_selection.h"
#include "cellfeed/format/row_store.h"

namespace cellfeed::collection {

// What reading rows of a store takes and gives. Whoever reads a collection knows these, and no
// format.
using format::CsrTarget;
using format::fetch_rows;
using format::FetchedRows;
using format::is_obsm;
using format::kRowsAhead;
using format::ParallelFor;
using format::ReadContext;
using format::ReadPlan;

struct CollectionOptions {
  Join join = Join::kNone;
  std::vector<std::string> genes{};  // the axis, for Join::kFixed
  // Columns of var that name the genes; of each store the first that it has. Empty: the genes' own
  // names.
  std::vector<std::string> var_keys{};
  bool make_unique = false;  // number repeated gene names instead of refusing them
  // Genes of the shards whose axis it is and whose cells those of the stores are to follow; null:
  // none.
  std::shared_ptr<const GeneTable> behind{};
  format::OpenOptions open{};
};

// A part of the memory for inflated chunks; its end gives it back. Keeps the collection.
class CacheShare;

class Collection;
// Another matrix of the same cells: a layer, raw, one of obsm. Its axis is its own.
struct NamedMatrix {
  std::string name;
  std::shared_ptr<const Collection> cells;
};

class Collection : public std::enable_shared_from_this<Collection> {
 public:
  // Throws what open_stores and join_genes throw; kInvalidArgument for an empty list.
  static std::shared_ptr<const Collection> open(const std::vector<std::string>& paths,
                                                const CollectionOptions& options);
  Collection(std::vector<std::unique_ptr<format::RowStore>> stores,
             const CollectionOptions& options);
  Collection(std::vector<std::shared_ptr<const format::RowStore>> stores,
             const CollectionOptions& options);
  // The same stores, with the labels of these columns numbered as the maps say.
  std::shared_ptr<const Collection> with_labels(std::map<std::string, LabelMap> labels) const;

  // The same cells, with these columns of obs behind those of the files, one value for each row.
  // Throws kInvalidArgument where a file has a column of that name, and what make_fixed_column
  // throws. REQUIRES: n_rows() rows.
  std::shared_ptr<const Collection> with_obs(const std::shared_ptr<arrow::Table>& columns) const;

  // The same cells, with these matrices beside that of this collection: readers read them together,
  // and selections are of all of them. Caches of inflated chunks are divided among all stores from
  // then on. Throws kInvalidArgument where a matrix has other cells. REQUIRES: no selected rows.
  std::shared_ptr<const Collection> with_matrices(std::vector<NamedMatrix> matrices) const;

  // The same stores, of which only these rows of this collection count, in their order. Throws what
  // RowSelection throws.
  std::shared_ptr<const Collection> with_rows(std::span<const std::int64_t> rows) const;

  // The same cells, whose values may be taken together although files record different steps.
  std::shared_ptr<const Collection> with_mixed_processing() const;

  // The same cells, of whose genes only these columns of this collection count, in their order; and
  // of other matrices with these genes.
  // Throws kInvalidArgument for none and for one given twice; kOutOfRange outside [0, n_genes).
  std::shared_ptr<const Collection> with_genes(std::span<const std::int64_t> columns) const;

  std::int64_t n_rows() const { return selected_ ? selected_->size() : n_stored_rows(); }
  // Those of all stores, selected or not.
  std::int64_t n_stored_rows() const { return offsets_.back(); }
  // Whether with_rows() gave it.
  bool has_selected_rows() const { return selected_ != nullptr; }
  // Number 0 is this collection itself, the others are what with_matrices() was given, in order.
  std::size_t n_matrices() const { return 1 + matrices_.size(); }
  const Collection& matrix(std::size_t m) const { return m == 0 ? *this : *matrices_[m - 1].cells; }
  // REQUIRES, as below: 0 < m < n_matrices().
  const std::string& matrix_name(std::size_t m) const { return matrices_[m - 1].name; }
  // Whether its columns are the genes of this collection, so that both are chosen together.
  bool has_first_genes(std::size_t m) const;

  std::int64_t n_stores() const { return static_cast<std::int64_t>(stores_.size()); }
  const format::RowStore& store(std::int64_t s) const { return *stores_[s]; }
  std::shared_ptr<const format::RowStore> shared_store(std::int64_t s) const { return stores_[s]; }
  // Of each store the number of rows in those before it, and n_stored_rows() last.
  std::span<const std::int64_t> offsets() const { return offsets_; }
  const matrix::GeneAxis& genes() const { return genes_; }
  // Store column -> joined column (-1 = dropped); empty where the store has the joined axis itself,
  // and where it has no columns.
  std::span<const std::int32_t> gene_map(std::int64_t s) const;
  // Whether the store has the joined axis itself.
  bool has_joined_axis(std::int64_t s) const { return maps_[s] == nullptr; }
  // Equal for stores that share a map, and for no others; null for those with the joined axis.
  const void* gene_map_id(std::int64_t s) const { return maps_[s].get(); }
  // The columns of a store as they are joined: by another column of var where one was chosen,
  // repeated ones numbered.
  const matrix::GeneAxis& store_genes(std::int64_t s) const {
    return renamed_.empty() ? stores_[s]->genes() : *renamed_[s];
  }
  // Columns of var that name the genes; empty: the genes' own names.
  const std::vector<std::string>& var_keys() const { return var_keys_; }
  // Of a fixed axis: the genes that no store has.
  const std::vector<std::string>& missing_genes() const { return missing_genes_; }
  // What files hold that is not read though nobody chose that; empty where there is nothing.
  std::string left_out_text() const;
  // Of a fixed axis: stores that have none of its genes.
  const std::vector<std::size_t>& stores_without_genes() const { return stores_without_genes_; }
  // What to say of them, and of stores that have none of the axis; empty where all is found.
  const std::string& missing_genes_text() const { return missing_genes_text_; }
  bool allows_mixed_processing() const { return allows_mixed_processing_; }
  // What was done to the values of its cells. Throws kInvalidArgument where files record different
  // steps, unless with_mixed_processing() gave it: whoever takes values asks. Files are looked at
  // when it is first asked for.
  format::Processing processing() const;
  // The same of one store alone.
  format::Processing processing(std::int64_t s) const { return processing_of_stores()->at(s); }

  // Whether reading may wait for a server: some store is not on a disk of this machine.
  bool is_remote() const { return is_remote_; }
  // Calls step(i) once for each i in [0, n), each of one store: where one waits for a server, those
  // behind it wait side by side. The error thrown is that of the lowest i.
  void step_stores(std::int64_t n, const std::function<void(std::int64_t)>& step) const;
  // REQUIRES: 0 <= row < n_rows().
  RowPlace locate(std::int64_t row) const;

  std::vector<std::string> obs_names() const;  // the union over stores, first seen first
  // Throws kNoSuchKey when no store has the column, naming those there are; what JoinedColumn
  // throws, and kPrecision where numbers would be rounded.
  std::shared_ptr<const JoinedColumn> obs_column(const std::string& name) const;
  // As it is, large numbers rounded: for whoever asks only which values are missing.
  std::shared_ptr<const JoinedColumn> obs_column_as_rounded(const std::string& name) const;

  // Some store keeps rows in chunks, so that reading one row inflates its neighbours.
  bool is_chunked() const;
  // What all compressed stores hold once inflated; 0 where none is compressed in chunks.
  std::int64_t inflated_bytes() const;
  // Memory that each thread takes while it fetches, of the store that takes most.
  std::int64_t scratch_bytes() const;
  // Adds to what the compressed stores may keep inflated between fetches, for as long as the share
  // lives. Without any share they keep what OpenOptions::cache_bytes says, all together. What is
  // kept serves whoever reads.
  std::shared_ptr<const CacheShare> reserve_cache(std::int64_t bytes) const;

  // Follows from what the files hold, their order, the gene axis and the maps of with_labels; files
  // are looked at when it is first asked for.
  std::uint64_t fingerprint() const;

 private:
  // Shares all but the fingerprint.
  Collection(const Collection& other);

  std::vector<std::shared_ptr<const format::RowStore>> stores_;
  std::vector<std::int64_t> offsets_;
  bool is_remote_ = false;
  std::shared_ptr<const RowSelection> selected_;  // of the stored rows; null: all of them
  std::vector<NamedMatrix> matrices_;             // beside this one
  matrix::GeneAxis genes_;
  std::vector<std::shared_ptr<const std::vector<std::int32_t>>> maps_;
  // Of each store, where names are not its own; stores of one gene table share one. Else empty.
  std::vector<std::shared_ptr<const matrix::GeneAxis>> renamed_;
  std::vector<std::string> missing_genes_;
  std::vector<std::size_t> stores_without_genes_;
  std::string missing_genes_text_;
  bool allows_mixed_processing_ = false;
  std::map<std::string, LabelMap> labels_;
  mutable std::atomic<std::uint64_t> fingerprint_{0};  // 0: not asked for yet
  void require_equal_columns() const;
  std::shared_ptr<const Collection> selecting(std::shared_ptr<const RowSelection> rows) const;
  friend class CacheShare;
  void change_cache(std::int64_t bytes, int shares) const;

  // Shared by all collections over these stores.
  struct CacheState {
    explicit CacheState(std::int64_t bytes) : own_bytes(bytes) {}
    const std::int64_t own_bytes;
    ForkSafeMutex mutex;  // guards the two below
    std::int64_t reserved_bytes = 0;
    std::int64_t n_shares = 0;
  };
  std::shared_ptr<CacheState> cache_;

  // Shared by all collections over these stores whose labels have the same numbers.
  struct ObsColumns {
    ForkSafeMutex mutex;  // guards the one below
    std::map<std::string, std::shared_ptr<const JoinedColumn>> by_name;
  };
  std::shared_ptr<ObsColumns> obs_;

  // Of all collections over these stores.
  struct Records {
    ForkSafeMutex mutex;  // guards the one below
    std::shared_ptr<const std::vector<format::Processing>> of_stores;
  };
  std::shared_ptr<Records> records_;
  std::shared_ptr<const std::vector<format::Processing>> processing_of_stores() const;
  std::vector<std::string> var_keys_;
};

}  // namespace cellfeed::collection
