#include "cellfeed/format/parquet/parquet_store.h"

#include <arrow/table.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cellfeed/base/byte_size.h"
#include "cellfeed/base/error.h"
#include "cellfeed/format/cells_alone.h"
#include "cellfeed/format/content_fingerprint.h"
#include "cellfeed/format/parquet/list_matrix.h"
#include "cellfeed/format/parquet/obs_table.h"
#include "cellfeed/format/parquet/wide_matrix.h"
#include "cellfeed/format/shared_axis.h"
#include "cellfeed/matrix/buffer.h"

namespace cellfeed::format::parquet_table {
namespace {

// The file, and what is known of it and of its cells, whatever its matrix.
class CellTable {
 public:
  CellTable(const std::string& path, const OpenOptions& options)
      : file_(path),
        columns_(find_columns(file_, options)),
        obs_(file_, columns_),
        options_(options.choice.table) {}

  const TableFile& file() const { return file_; }
  const TableColumns& columns() const { return columns_; }
  const ObsTable& obs() const { return obs_; }
  const TableOptions& options() const { return options_; }
  const std::string& name(int column) const { return file_.schema().field(column)->name(); }
  std::string what_columns_are() const;
  // What options chose of the file.
  std::string choice() const;
  // For messages: columns that are not read, and genes that may be none. Empty: nothing to say.
  std::string left_out() const;
  std::uint64_t fingerprint() const;

 private:
  std::string doubtful_genes() const;

  const TableFile file_;
  const TableColumns columns_;
  const ObsTable obs_;
  const TableOptions options_;
  mutable std::atomic<std::uint64_t> fingerprint_{0};  // 0: not asked for yet
};

std::string CellTable::what_columns_are() const {
  if (columns_.kind == TableKind::kObs) return "all are obs";
  if (columns_.kind == TableKind::kLists)
    return fmt::format("lists: genes in '{}', values in '{}'; the others are obs",
                       name(columns_.genes), name(columns_.values));
  return fmt::format("wide: {} numeric columns are genes; the others are obs",
                     columns_.wide.size());
}

std::string first_of(const std::vector<std::string>& all) {
  constexpr std::size_t kNamed = 5;
  const std::size_t n = std::min(all.size(), kNamed);
  return fmt::format("{}{}", fmt::join(all.begin(), all.begin() + std::ptrdiff_t(n), ", "),
                     all.size() > n ? ", ..." : "");
}

std::string CellTable::left_out() const {
  const auto& all = columns_.left_out;
  std::string text = doubtful_genes();
  if (all.empty()) return text;
  if (!text.empty()) text += "; ";
  return text + fmt::format(
                    "columns of types that obs cannot have are left out ({}); write them as texts "
                    "or numbers to have them",
                    first_of(all));
}

// Genes of one matrix are of one type: numbers of another are likely to be of the cells.
std::string CellTable::doubtful_genes() const {
  std::map<std::string, std::vector<std::string>> by_type;
  for (const int c : columns_.wide)
    by_type[file_.schema().field(c)->type()->ToString()].push_back(name(c));
  if (by_type.size() < 2) return "";
  const auto most = std::ranges::max_element(
      by_type, {}, [](const auto& of_type) { return of_type.second.size(); });
  std::vector<std::string> others;
  for (const auto& [type, names] : by_type)
    if (type != most->first)
      for (const std::string& each : names) others.push_back(fmt::format("{} ({})", each, type));
  return fmt::format(
      "{} of the {} numeric columns are of other types than the rest, {}, and are read as genes "
      "({}): name those that are of the cells in obs",
      others.size(), columns_.wide.size(), most->first, first_of(others));
}

std::string CellTable::choice() const {
  std::string text = what_columns_are();
  if (columns_.kind == TableKind::kWide)
    for (const int c : columns_.obs) text += "\n" + name(c);
  return text;
}

// Threads that ask at once find the same number.
std::uint64_t CellTable::fingerprint() const {
  if (const std::uint64_t known = fingerprint_.load()) return known;
  std::vector<std::string> paths{file_.path()};
  if (columns_.kind == TableKind::kLists && !options_.var.empty()) paths.push_back(options_.var);
  const std::uint64_t found = content_fingerprint(paths, choice());
  file_.require_unchanged();
  return fingerprint_ = found;
}

StoreInfo info_of(const CellTable& table) {
  StoreInfo info;
  info.path = table.file().path();
  info.format = std::string("parquet");
  info.layer = std::string("X");
  info.n_rows = table.file().n_rows();
  info.bytes_on_disk = table.file().size();
  info.left_out = table.left_out();
  info.columns = table.what_columns_are();
  info.choice = table.choice();
  return info;
}

class ParquetObs final : public CellsAlone {
 public:
  explicit ParquetObs(std::unique_ptr<const CellTable> table) : table_(std::move(table)) {
    describe(info_of(*table_));
  }
  void release_pages() const override { table_->file().source().release_pages(); }
  std::vector<std::string> obs_names() const override { return table_->obs().names(); }
  matrix::FixedColumn obs_column(const std::string& name) const override {
    return table_->obs().column(name);
  }
  std::shared_ptr<arrow::Table> read_obs(std::int64_t begin, std::int64_t end) const override {
    return table_->obs().read(begin, end);
  }
  std::uint64_t fingerprint() const override { return table_->fingerprint(); }

 private:
  const std::unique_ptr<const CellTable> table_;
};

// The genes of a table, and its matrix.
struct Matrix {
  std::shared_ptr<const matrix::GeneAxis> genes;
  std::shared_ptr<arrow::Table> var;
  std::unique_ptr<const GroupMatrix> groups;
};

Matrix open_matrix_of(const CellTable& table) {
  Matrix matrix;
  if (table.columns().kind == TableKind::kLists) {
    GeneIds ids(table.file(), table.columns(), table.options().var);
    matrix.genes = share_axis({ids.take_names()});
    matrix.var = ids.table();
    matrix.groups = std::make_unique<const ListMatrix>(table.file(), table.columns(),
                                                       std::move(ids), matrix.genes->size());
    return matrix;
  }
  std::vector<std::string> names;
  for (const int c : table.columns().wide) names.push_back(table.name(c));
  matrix.var = table_of_names(names);
  matrix.genes = share_axis({std::move(names)});
  matrix.groups = std::make_unique<const WideMatrix>(table.file(), table.columns());
  return matrix;
}

std::int64_t memory_of_groups(const GroupMatrix& groups) {
  std::int64_t bytes = 0;
  for (int g = 0; g < groups.file().n_groups(); ++g)
    bytes += static_cast<std::int64_t>(
        matrix::block_bytes(static_cast<std::size_t>(groups.group(g).decoded_bytes)));
  return bytes;
}

class ParquetStore final : public RowStore {
 public:
  ParquetStore(std::unique_ptr<const CellTable> table, Matrix matrix, const OpenOptions& options)
      : table_(std::move(table)),
        matrix_(std::move(matrix)),
        cache_(options.cache_bytes, memory_of_groups(*matrix_.groups), options.reads_in_order) {
    describe();
  }

  const StoreInfo& info() const override { return info_; }
  const matrix::GeneAxis& genes() const override { return *matrix_.genes; }
  std::unique_ptr<FetchedRows> begin(std::span<const std::int64_t> rows,
                                     const ReadContext& context) const override {
    table_->file().require_unchanged();
    return matrix_.groups->begin(cache_, rows, context);
  }
  ReadPlan plan(std::span<const std::int64_t> rows) const override {
    return matrix_.groups->plan(rows);
  }
  void set_cache_bytes(std::int64_t bytes) const override { cache_.set_capacity(bytes); }
  void release_pages() const override {
    table_->file().source().release_pages();
    table_->obs().release();
    cache_.release();
  }
  std::vector<std::string> obs_names() const override { return table_->obs().names(); }
  matrix::FixedColumn obs_column(const std::string& name) const override {
    return table_->obs().column(name);
  }
  std::shared_ptr<arrow::Table> read_obs(std::int64_t begin, std::int64_t end) const override {
    return table_->obs().read(begin, end);
  }
  std::shared_ptr<arrow::Table> read_var() const override { return matrix_.var; }
  std::uint64_t fingerprint() const override { return table_->fingerprint(); }

 private:
  void describe();

  const std::unique_ptr<const CellTable> table_;
  const Matrix matrix_;
  const GroupCache cache_;
  StoreInfo info_;
};

void ParquetStore::describe() {
  // What Arrow has decoded of a group, beside what is made of it.
  constexpr std::int64_t kArrowBytes = 24 << 20;
  info_ = info_of(*table_);
  const GroupMatrix& groups = *matrix_.groups;
  info_.n_cols = groups.n_cols();
  info_.value_dtype = groups.dtype();
  info_.compression = groups.compression();
  groups.describe(info_);
  std::int64_t most_bytes = 0;
  for (int g = 0; g < table_->file().n_groups(); ++g) {
    info_.rows_per_chunk = std::max(info_.rows_per_chunk, table_->file().rows_of(g));
    most_bytes = std::max(most_bytes, groups.group(g).decoded_bytes);
  }
  info_.inflated_bytes = memory_of_groups(groups);
  info_.scratch_bytes = most_bytes + std::min(kArrowBytes, 4 * most_bytes);
}

// A group is decoded whole, by each thread.
constexpr std::int64_t kMostGroupBytes = std::int64_t{512} << 20;

void refuse_large_groups(const CellTable& table, const GroupMatrix& groups) {
  for (int g = 0; g < table.file().n_groups(); ++g)
    if (const std::int64_t bytes = groups.group(g).decoded_bytes; bytes > kMostGroupBytes)
      throw_error(ErrorKind::kUnsupported, table.file().path(),
                  "its row groups are too large to be read by rows: group {} holds {} rows, which "
                  "take {} once they are decoded, and at most {} is read; write it with {} rows a "
                  "group or fewer (row_group_size of pyarrow.parquet.write_table)",
                  g, table.file().rows_of(g), format_byte_size(bytes),
                  format_byte_size(kMostGroupBytes),
                  std::max<std::int64_t>(1, table.file().rows_of(g) * (kMostGroupBytes / 8) /
                                                std::max<std::int64_t>(1, bytes)));
}

}  // namespace

std::unique_ptr<RowStore> open_parquet(const std::string& path, const OpenOptions& options) {
  if (options.cache_bytes < 0)
    throw_invalid("cache_bytes must not be negative: {}", options.cache_bytes);
  if (options.layer != "X" && options.layer != kNoLayer)
    throw_error(ErrorKind::kNoSuchKey, path,
                "no layer '{}': a Parquet table has one matrix, named X", options.layer);
  auto table = std::make_unique<const CellTable>(path, options);
  if (options.layer == kNoLayer) return std::make_unique<ParquetObs>(std::move(table));
  Matrix matrix = open_matrix_of(*table);
  refuse_large_groups(*table, *matrix.groups);
  return std::make_unique<ParquetStore>(std::move(table), std::move(matrix), options);
}

}  // namespace cellfeed::format::parquet_table
