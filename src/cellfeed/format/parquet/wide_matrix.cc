#include "cellfeed/format/parquet/wide_matrix.h"

#include <arrow/api.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "cellfeed/base/error.h"
#include "cellfeed/format/parquet/column_types.h"
#include "cellfeed/format/parquet/value_copy.h"
#include "cellfeed/format/parquet/wide_rows.h"
#include "cellfeed/matrix/obs_union.h"

namespace cellfeed::format::parquet_table {
namespace {

// Of all columns that Arrow has decoded at a time.
constexpr std::int64_t kBytesAtOnce = 8 << 20;
// Columns that go to rows together: as many as a line of the processor's cache holds of float32.
constexpr std::size_t kTileColumns = 16;

std::vector<int> wide_leaves(const TableFile& file, const TableColumns& columns) {
  std::vector<int> leaves;
  for (const int c : columns.wide) leaves.push_back(file.leaves(c)[0]);
  return leaves;
}

DType united_dtype(const TableFile& file, const TableColumns& columns) {
  std::vector<DType> dtypes;
  for (const int c : columns.wide) dtypes.push_back(*number_dtype(*file.schema().field(c)->type()));
  return matrix::unite_dtypes(dtypes);
}

// rows[i * row_bytes + c * sizeof(T)] = tile[c * n_rows + i]
template <typename T>
void turn(const std::byte* tile, std::int64_t n_rows, std::size_t n_columns, std::byte* rows,
          std::int64_t row_bytes) {
  const T* const from = reinterpret_cast<const T*>(tile);
  for (std::int64_t i = 0; i < n_rows; ++i) {
    T* const to = reinterpret_cast<T*>(rows + i * row_bytes);
    for (std::size_t c = 0; c < n_columns; ++c)
      to[c] = from[static_cast<std::int64_t>(c) * n_rows + i];
  }
}

}  // namespace

WideMatrix::WideMatrix(const TableFile& file, const TableColumns& columns)
    : GroupMatrix(file, wide_leaves(file, columns), united_dtype(file, columns),
                  std::ssize(columns.wide)),
      decoder_(file.path(), "X", n_cols(), dtype()) {
  for (const int c : columns.wide) names_.push_back(file.schema().field(c)->name());
  list_groups([&](StoredGroup& group, int number, int, const StoredChunk& chunk) {
    constexpr std::int64_t kMostValues = std::int64_t{1} << 48;
    const std::int64_t n_rows = file.rows_of(number);
    if (chunk.n_values != n_rows || n_rows > kMostValues / n_cols())
      throw_error(ErrorKind::kCorruptData, file.path(),
                  "row group {} says that it holds {} values of a column in {} rows", number,
                  chunk.n_values, n_rows);
    group.decoded_bytes = n_rows * row_bytes();
  });
}

void WideMatrix::describe(StoreInfo& info) const {
  info.is_dense = true;
  info.nnz = -1;
}

std::size_t WideMatrix::columns_at_once(int number) const {
  const std::int64_t fitting =
      kBytesAtOnce / std::max<std::int64_t>(1, file().rows_of(number)) / sizeof(double);
  const auto tiles = static_cast<std::size_t>(fitting) / kTileColumns;
  return std::max<std::size_t>(1, tiles) * kTileColumns;
}

void WideMatrix::copy_column(const arrow::Array& column, std::size_t gene, std::int64_t first_row,
                             std::byte* out) const {
  const std::int64_t misfit = copy_values(column, 0, column.length(), dtype(), out);
  if (misfit >= 0 && column.IsValid(misfit))
    throw_error(
        ErrorKind::kPrecision, file().path(),
        "column '{}' is of another type than others, and a value of it is none of {}, which "
        "holds those of all columns: row {}, value {}",
        names_[gene], dtype_name(dtype()), first_row + misfit, value_text(column, misfit));
  const std::int64_t missing = mark_missing(column, 0, column.length(), dtype(), out);
  if (missing >= 0)
    throw_error(ErrorKind::kUnsupported, file().path(),
                "a value is missing in column '{}' of integers, row {}: fill it, or write the "
                "column as floats, where it is NaN",
                names_[gene], first_row + missing);
}

void WideMatrix::decode(int number, std::vector<HeldBytes> held, std::span<std::byte> out) const {
  const auto width = static_cast<std::int64_t>(dtype_bytes(dtype()));
  std::vector<std::byte> tile;
  std::size_t slice = std::numeric_limits<std::size_t>::max();
  std::int64_t begin = 0;  // rows of the slice so far
  file().read({.group = number,
               .leaves = leaves(),
               .n_leaves_at_once = columns_at_once(number),
               .held = std::move(held)},
              [&](const arrow::RecordBatch& rows, std::size_t first) {
                if (slice != first) begin = 0;
                slice = first;
                const std::int64_t n = rows.num_rows();
                tile.resize(kTileColumns * static_cast<std::size_t>(n * width));
                const auto n_columns = static_cast<std::size_t>(rows.num_columns());
                for (std::size_t c = 0; c < n_columns; c += kTileColumns) {
                  const std::size_t m = std::min(kTileColumns, n_columns - c);
                  for (std::size_t k = 0; k < m; ++k)
                    copy_column(*rows.column(static_cast<int>(c + k)), first + c + k,
                                file().first_rows()[number] + begin,
                                tile.data() + static_cast<std::int64_t>(k) * n * width);
                  std::byte* const to = out.data() + begin * row_bytes() +
                                        static_cast<std::int64_t>(first + c) * width;
                  if (width == 1) turn<std::uint8_t>(tile.data(), n, m, to, row_bytes());
                  if (width == 2) turn<std::uint16_t>(tile.data(), n, m, to, row_bytes());
                  if (width == 4) turn<std::uint32_t>(tile.data(), n, m, to, row_bytes());
                  if (width == 8) turn<std::uint64_t>(tile.data(), n, m, to, row_bytes());
                }
                begin += n;
              });
}

std::unique_ptr<FetchedRows> WideMatrix::begin(const GroupCache& cache,
                                               std::span<const std::int64_t> rows,
                                               const ReadContext& context) const {
  return begin_wide_rows(*this, cache, rows, context);
}

ReadPlan WideMatrix::plan(std::span<const std::int64_t> rows) const {
  return plan_wide_rows(*this, rows);
}

}  // namespace cellfeed::format::parquet_table
