// Sources: the cells of a conversion or export, read in order, with all of obs and var.
// Thread-safe: const, but for transpose().
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/base/dtype.h"
#include "cellfeed/collection/collection.h"
#include "cellfeed/convert/inputs/input_cells.h"
#include "cellfeed/convert/inputs/obs_choice.h"
#include "cellfeed/convert/inputs/table_union.h"
#include "cellfeed/convert/transpose/transposed_store.h"
#include "cellfeed/format/row_store.h"
#include "cellfeed/matrix/csr.h"

namespace arrow {
class Table;
}

namespace cellfeed::convert {

// Some rows of obs; dictionary columns carry all their categories.
struct ObsSample {
  std::shared_ptr<arrow::Table> rows;
  std::string path;
};

// Whether obs has the file and row of each cell (columns of obs/obs_schema.h): where cells were
// chosen or some input has them; never, even if shards have them; always.
enum class Origins { kOfChosenCells, kNone, kAll };

struct SourceOptions {
  Origins origins = Origins::kOfChosenCells;
  ObsChoice obs_choice{};
  // What obs is united with, before that of the cells.
  std::vector<ObsSample> obs_before{};
  // See CollectionOptions.
  std::shared_ptr<const collection::GeneTable> behind{};
};

// Cells [begin, end) of one source.
struct SourceRange {
  std::int64_t source = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t n_cells() const { return end - begin; }
};

class Sources {
 public:
  // The first matrix of the cells, with all of obs and var. A source is a run of cells of one
  // store. Throws kInvalidArgument where there are no cells or no genes, or cells go back and forth
  // between stores too often.
  Sources(const InputCells& input, const SourceOptions& options);
  // Another matrix of the cells. REQUIRES: 0 < matrix < n_matrices(), and no call of obs().
  static Sources of_matrix(const InputCells& input, std::size_t matrix);

  // The first of the files read that lies at this path, under whichever name, or below it; empty:
  // none does.
  std::string input_at(const std::string& path) const;
  // Whether no input waits for its rows, which late_rows() put off.
  bool is_by_rows() const { return transposed_.empty(); }
  // Makes them. REQUIRED before rows are read.
  void transpose(exec::ThreadPool& pool, const TransposeOptions& options) const;

  std::int64_t n_cells() const { return cells_->n_stored_rows(); }
  std::int64_t n_sources() const { return cells_->n_stores(); }
  const format::RowStore& store(std::int64_t source) const { return cells_->store(source); }
  // Of each store. Those of remote files are found side by side.
  std::vector<std::uint64_t> fingerprints() const;
  // First cell of each source in the joined table, and n_cells() last.
  std::span<const std::int64_t> offsets() const { return cells_->offsets(); }
  const matrix::GeneAxis& genes() const { return cells_->genes(); }
  // As they are joined: by another column of var where one was chosen, repeated ones numbered.
  const matrix::GeneAxis& source_genes(std::int64_t source) const {
    return cells_->store_genes(source);
  }
  // Column of the source -> joined column, -1 where it is dropped; empty where they are the same.
  std::span<const std::int32_t> gene_map(std::int64_t source) const {
    return cells_->gene_map(source);
  }
  const std::vector<std::string>& var_keys() const { return cells_->var_keys(); }
  bool has_joined_axis(std::int64_t source) const { return cells_->has_joined_axis(source); }
  const void* gene_map_id(std::int64_t source) const { return cells_->gene_map_id(source); }
  // A type that holds the values of all sources exactly.
  DType value_dtype() const { return value_dtype_; }
  // What was done to the values, as the sources' manifests say; "{}" when nothing is known.
  const std::string& processing_json() const { return processing_json_; }
  // Genes of the axis that no source has.
  const std::vector<std::string>& absent_genes() const { return cells_->missing_genes(); }

  const ObsChoice& obs_choice() const { return obs_choice_; }
  // SourceOptions::obs_before first, then that of the sources.
  const TableUnion& obs() const { return *obs_; }
  // Conformed, without library sizes: see LibrarySizes.
  std::shared_ptr<arrow::Table> read_obs(const SourceRange& range) const;
  // The joined gene table: "_index" first. A value is that of the first source that has the gene
  // and the column; null where none has.
  std::shared_ptr<arrow::Table> read_var() const;

  // Cells [begin, end) of the joined table, in pieces of one source that hold at most max_cells and
  // about max_bytes of decoded rows. A pure function of the sources and its arguments.
  std::vector<SourceRange> split(std::int64_t begin, std::int64_t end, std::int64_t max_cells,
                                 std::int64_t max_bytes) const;
  // Decoded bytes of an average row of a source.
  double row_bytes(std::int64_t source) const;
  std::int64_t plan_bytes(const SourceRange& range) const;

 private:
  Sources(const InputCells& input, std::size_t matrix,
          std::shared_ptr<const collection::GeneTable> behind);
  void require_chosen_obs() const;
  void unite_obs(const std::vector<ObsSample>& before);
  std::shared_ptr<arrow::Table> read_own_obs(const SourceRange& range) const;

  std::vector<std::string> paths_;
  std::shared_ptr<const collection::Collection> cells_;
  std::vector<const TransposedStore*> transposed_;  // of the stores
  Origins origins_ = Origins::kOfChosenCells;
  ObsChoice obs_choice_;
  bool names_origins_ = false;  // obs says of all cells which file and row they are from
  bool keeps_own_names_ = false;
  DType value_dtype_ = DType::kF32;
  std::string processing_json_ = "{}";
  std::unique_ptr<TableUnion> obs_;
  std::size_t n_obs_before_ = 0;  // tables of the union before that of the first source
};

// Gives back the memory behind files that are passed over once, so that memory stays bounded
// however long they are. Not thread-safe.
class PassedPages {
 public:
  // limit_bytes: of files that may stay in memory before they are given back.
  PassedPages(const Sources& sources, std::int64_t limit_bytes)
      : sources_(sources), limit_bytes_(limit_bytes) {}
  // Rows of the range have been read; ranges come in order.
  void passed(const SourceRange& range);

 private:
  const Sources& sources_;
  std::int64_t limit_bytes_;
  std::int64_t source_ = 0;
  double bytes_ = 0;
};

}  // namespace cellfeed::convert
