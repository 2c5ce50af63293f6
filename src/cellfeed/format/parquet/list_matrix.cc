#include "cellfeed/format/parquet/list_matrix.h"

#include <arrow/api.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "cellfeed/base/checked_size.h"
#include "cellfeed/base/error.h"
#include "cellfeed/format/parquet/column_types.h"
#include "cellfeed/format/parquet/list_items.h"
#include "cellfeed/format/parquet/list_rows.h"
#include "cellfeed/format/parquet/value_copy.h"
#include "cellfeed/format/parquet/whole_numbers.h"
#include "cellfeed/format/stored_values.h"

namespace cellfeed::format::parquet_table {
namespace {

// Entries that Arrow has decoded at a time.
constexpr std::int64_t kEntriesAtOnce = 1 << 18;

std::vector<int> leaves_of(const TableFile& file, const TableColumns& columns) {
  std::vector<int> leaves{file.leaves(columns.genes)[0], file.leaves(columns.values)[0]};
  std::ranges::sort(leaves);
  return leaves;
}

DType value_dtype_of(const TableFile& file, const TableColumns& columns) {
  return *number_dtype(*item_type(*file.schema().field(columns.values)->type()));
}

// The row group as it is filled.
struct DecodedLists {
  std::int64_t* begins = nullptr;
  std::byte* values = nullptr;
  std::int32_t* indices = nullptr;
  std::int64_t n_rows = 0;
  std::int64_t n_entries = 0;
};

// Rows of one batch of Arrow's, behind those before.
class RowAppender {
 public:
  struct Names {
    const std::string& path;
    const std::string& genes;
    const std::string& values;
  };
  RowAppender(const GeneIds& ids, Names names, const arrow::Array& genes,
              const arrow::Array& values, DType dtype)
      : ids_(ids), names_(names), genes_(genes), values_(values), dtype_(dtype) {}

  // first_row: of the batch, in the file.
  void append(std::int64_t first_row, std::int64_t n_rows, std::int64_t most_entries,
              DecodedLists& out) {
    const auto width = static_cast<std::int64_t>(dtype_bytes(dtype_));
    find_columns(n_rows);
    for (std::int64_t i = 0; i < n_rows; ++i) {
      const std::int64_t row = first_row + i;
      std::int64_t begin = genes_.begin(i), from = values_.begin(i), n = length_of(row, i);
      if (n > most_entries - out.n_entries)
        throw_error(ErrorKind::kCorruptData, names_.path,
                    "row {}: its row group holds more entries than it says: {}", row, most_entries);
      if (n > 0 && is_mark(row, begin, from)) {
        ++begin;
        ++from;
        --n;
      }
      for (std::int64_t k = 0; k < n; ++k) {
        const std::int32_t column = columns_[static_cast<std::size_t>(begin - first_item_ + k)];
        if (column == kNoGene) throw_no_gene(row, i, begin + k);
        out.indices[out.n_entries + k] = column;
      }
      std::byte* const to = out.values + out.n_entries * width;
      const arrow::Array& values = *values_.items();
      if (copy_values(values, from, n, dtype_, to) >= 0)
        throw Error(ErrorKind::kInternal, "values changed their type", names_.path);
      if (const std::int64_t missing = mark_missing(values, from, n, dtype_, to); missing >= 0)
        throw_missing(row, from - values_.begin(i) + missing, names_.values);
      out.n_entries += n;
      out.begins[++out.n_rows] = out.n_entries;
    }
  }

 private:
  void require_list(const Lists& lists, const std::string& name, std::int64_t row,
                    std::int64_t i) const;
  [[noreturn]] void throw_missing(std::int64_t row, std::int64_t entry,
                                  const std::string& name) const;
  std::int64_t length_of(std::int64_t row, std::int64_t i) const;
  bool is_mark(std::int64_t row, std::int64_t gene, std::int64_t value) const;
  void find_columns(std::int64_t n_rows);
  std::vector<std::int32_t> columns_of_texts(const arrow::Array& texts) const;
  [[noreturn]] void throw_no_gene(std::int64_t row, std::int64_t i, std::int64_t item) const;

  const GeneIds& ids_;
  const Names names_;
  const Lists genes_, values_;
  const DType dtype_;
  std::int64_t first_item_ = 0;
  std::vector<std::int32_t> columns_;  // of each item from first_item_ on
};

void RowAppender::require_list(const Lists& lists, const std::string& name, std::int64_t row,
                               std::int64_t i) const {
  if (lists.is_missing(i))
    throw_error(ErrorKind::kCorruptData, names_.path,
                "row {}: the list is missing in column '{}', so nothing is known of its genes; "
                "write an empty list where a cell has none",
                row, name);
}

void RowAppender::throw_missing(std::int64_t row, std::int64_t entry,
                                const std::string& name) const {
  throw_error(ErrorKind::kCorruptData, names_.path, "row {}: entry {} is missing in column '{}'",
              row, entry, name);
}

std::int64_t RowAppender::length_of(std::int64_t row, std::int64_t i) const {
  require_list(genes_, names_.genes, row, i);
  require_list(values_, names_.values, row, i);
  const std::int64_t n = genes_.length(i);
  if (n != values_.length(i))
    throw_error(ErrorKind::kCorruptData, names_.path,
                "row {}: the lists differ in length: {} in '{}', {} in '{}'", row, n, names_.genes,
                values_.length(i), names_.values);
  return n;
}

// The first entry of a row may stand for the cell: what no gene is, with a value that none has.
bool RowAppender::is_mark(std::int64_t row, std::int64_t gene, std::int64_t value) const {
  if (values_.items()->IsNull(value) || genes_.items()->IsNull(gene)) return false;
  double first = 0;
  std::byte stored[sizeof(double)];
  copy_values(*values_.items(), value, 1, dtype_, stored);
  dispatch_dtype(dtype_, [&](auto zero) {
    first = static_cast<double>(load_value<decltype(zero)>(stored, 0));
  });
  if (!(first < 0)) return false;
  const bool is_gene = columns_[static_cast<std::size_t>(gene - first_item_)] != kNoGene;
  if (ids_.has_table()) return !is_gene;
  throw_error(ErrorKind::kInvalidArgument, names_.path,
              "row {} begins with a negative value ({} in column '{}'), which may be a mark of the "
              "cell and none of a gene: name the table of genes with var, which tells them apart",
              row, value_text(*values_.items(), value), names_.values);
}

void RowAppender::find_columns(std::int64_t n_rows) {
  columns_.clear();
  if (n_rows == 0) return;
  first_item_ = genes_.begin(0);
  const std::int64_t end = genes_.begin(n_rows - 1) + genes_.length(n_rows - 1);
  const arrow::Array& items = *genes_.items();
  columns_.reserve(static_cast<std::size_t>(end - first_item_));
  if (items.type_id() == arrow::Type::DICTIONARY) {
    const auto& coded = static_cast<const arrow::DictionaryArray&>(items);
    const std::vector<std::int32_t> of_texts = columns_of_texts(*coded.dictionary());
    for (std::int64_t k = first_item_; k < end; ++k)
      columns_.push_back(
          items.IsNull(k) ? kNoGene : of_texts[static_cast<std::size_t>(coded.GetValueIndex(k))]);
  } else {
    with_whole_numbers(items, [&](const auto& numbers) {
      for (std::int64_t k = first_item_; k < end; ++k)
        columns_.push_back(numbers.IsNull(k)
                               ? kNoGene
                               : ids_.column_of_id(static_cast<std::int64_t>(numbers.Value(k))));
    });
  }
}

std::vector<std::int32_t> RowAppender::columns_of_texts(const arrow::Array& texts) const {
  if (texts.null_count() > 0)
    throw Error(ErrorKind::kCorruptData, "a name among those of genes is missing", names_.path);
  std::vector<std::int32_t> columns;
  for_each_text(texts,
                [&](std::string_view name) { columns.push_back(ids_.column_of_name(name)); });
  return columns;
}

void RowAppender::throw_no_gene(std::int64_t row, std::int64_t i, std::int64_t item) const {
  if (genes_.items()->IsNull(item)) throw_missing(row, item - genes_.begin(i), names_.genes);
  throw_error(
      ErrorKind::kCorruptData, names_.path, "row {}: '{}' in column '{}' is none of the {}", row,
      value_text(*genes_.items(), item), names_.genes,
      ids_.has_table() ? "genes of the table that var names" : "ids that its footer says it holds");
}

}  // namespace

ListMatrix::ListMatrix(const TableFile& file, const TableColumns& columns, GeneIds ids,
                       std::int64_t n_genes)
    : GroupMatrix(file, leaves_of(file, columns), value_dtype_of(file, columns), n_genes),
      genes_column_(file.schema().field(columns.genes)->name()),
      values_column_(file.schema().field(columns.values)->name()),
      genes_first_(columns.genes < columns.values),
      holds_names_(holds_texts(*item_type(*file.schema().field(columns.genes)->type()))),
      ids_(std::move(ids)),
      decoder_(file.path(), "X", n_genes, DType::kI32, dtype()) {
  const int genes_leaf = file.leaves(columns.genes)[0];
  list_groups([&](StoredGroup& group, int number, int leaf, const StoredChunk& chunk) {
    if (chunk.n_values < file.rows_of(number))
      throw_error(ErrorKind::kCorruptData, file.path(),
                  "row group {} says that it holds {} lists in {} rows", number, chunk.n_values,
                  file.rows_of(number));
    if (leaf != genes_leaf) return;
    group.most_entries = chunk.n_values;
    const auto n_missing = file.statistics(number, leaf).n_missing;
    if (n_missing && *n_missing <= chunk.n_values && nnz_ >= 0)
      nnz_ += chunk.n_values - *n_missing;
    else
      nnz_ = -1;
    constexpr std::int64_t kMostEntries = std::int64_t{1} << 48;
    if (group.most_entries > kMostEntries || file.rows_of(number) > kMostEntries)
      throw_error(ErrorKind::kCorruptData, file.path(), "row group {} cannot hold {} entries",
                  number, group.most_entries);
    group.decoded_bytes = ListLayout{file.rows_of(number), group.most_entries,
                                     static_cast<std::int64_t>(dtype_bytes(dtype()))}
                              .n_bytes();
  });
}

void ListMatrix::describe(StoreInfo& info) const {
  info.nnz = nnz_;
  info.is_dense = false;
}

void ListMatrix::decode(int number, std::vector<HeldBytes> held, std::span<std::byte> out) const {
  const ListLayout layout = this->layout(number);
  DecodedLists lists{
      .begins = reinterpret_cast<std::int64_t*>(out.data()),
      .values = out.data() + layout.values_begin(),
      .indices = reinterpret_cast<std::int32_t*>(out.data() + layout.indices_begin())};
  lists.begins[0] = 0;
  const std::int64_t row_entries =
      std::max<std::int64_t>(1, layout.most_entries / std::max<std::int64_t>(1, layout.n_rows));
  file().read({.group = number,
               .leaves = leaves(),
               .batch_rows = std::max<std::int64_t>(1, kEntriesAtOnce / row_entries),
               .keeps_repeated_texts = holds_names_,
               .held = std::move(held)},
              [&](const arrow::RecordBatch& rows, std::size_t) {
                RowAppender(ids_, {file().path(), genes_column_, values_column_},
                            *rows.column(genes_first_ ? 0 : 1), *rows.column(genes_first_ ? 1 : 0),
                            dtype())
                    .append(file().first_rows()[number] + lists.n_rows, rows.num_rows(),
                            layout.most_entries, lists);
              });
}

std::unique_ptr<FetchedRows> ListMatrix::begin(const GroupCache& cache,
                                               std::span<const std::int64_t> rows,
                                               const ReadContext& /*context*/) const {
  return begin_list_rows(*this, cache, rows);
}

ReadPlan ListMatrix::plan(std::span<const std::int64_t> rows) const {
  return plan_list_rows(*this, rows);
}

}  // namespace cellfeed::format::parquet_table
