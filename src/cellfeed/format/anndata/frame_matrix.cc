#include "cellfeed/format/anndata/frame_matrix.h"

#include <arrow/api.h>

#include <algorithm>

#include "cellfeed/base/error.h"
#include "cellfeed/chunked/fetched_runs.h"
#include "cellfeed/format/anndata/frame_rows.h"
#include "cellfeed/format/open_side_by_side.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::format::anndata {
namespace {

// What a column holds instead of numbers; empty where it holds these.
std::string other_content(const StoredNode& node) {
  if (node.kind() == NodeKind::kGroup)
    return node.text_attribute("encoding-type").value_or("a group");
  if (node.kind() != NodeKind::kArray) return "no array";
  if (node.has_attribute("categories")) return "categorical";
  try {
    node.traits();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnsupported) throw;
    return node.type_text();
  }
  return {};
}

void require_numbers(const StoredTree& file, const std::string& table, const std::string& column) {
  const auto node = file.find(table + "/" + column);
  if (!node)
    throw_error(ErrorKind::kCorruptData, file.path(), "a listed column is not there: '{}/{}'",
                table, column);
  if (const std::string content = other_content(*node); !content.empty())
    throw_error(ErrorKind::kUnsupported, file.path(),
                "column '{}' of '{}' holds no numbers ({}), and only a table of numbers is read as "
                "a matrix: move the column to obs, or drop it",
                column, table, content);
}

}  // namespace

bool is_frame(const StoredNode& node) {
  return node.kind() == NodeKind::kGroup && node.text_attribute("encoding-type") == "dataframe";
}

FrameMatrix::FrameMatrix(const StoredTree& file, const std::string& path)
    : file_(file),
      frame_(file, path, std::nullopt),
      columns_(open_columns()),
      dtype_(common_dtype()),
      decoder_(file.path(), path, n_cols(), dtype_) {
  require_index_of_obs();
}

void FrameMatrix::require_index_of_obs() const {
  constexpr std::int64_t kRowsAtOnce = 1 << 16;
  const Dataframe obs(file_, "obs", std::nullopt);
  if (obs.n_rows() != n_rows())
    throw_error(ErrorKind::kCorruptData, file_.path(), "'{}' has {} rows, and obs {}",
                frame_.name(), n_rows(), obs.n_rows());
  for (std::int64_t begin = 0; begin < n_rows(); begin += kRowsAtOnce) {
    const std::int64_t end = std::min(begin + kRowsAtOnce, n_rows());
    if (!frame_.read_index(begin, end)->Equals(*obs.read_index(begin, end)))
      throw_error(ErrorKind::kCorruptData, file_.path(),
                  "'{}' has another index than obs, within rows {} to {}: its rows may be those of "
                  "other cells",
                  frame_.name(), begin, end - 1);
  }
}

std::vector<std::unique_ptr<const StoredArray>> FrameMatrix::open_columns() const {
  const std::vector<std::string>& names = frame_.columns();
  const std::string& table = frame_.name();
  if (names.empty())
    throw_error(ErrorKind::kUnsupported, file_.path(), "'{}' is a table without columns", table);
  std::vector<std::unique_ptr<const StoredArray>> columns(names.size());
  wait_side_by_side(std::ssize(names), io::is_local(file_.path()), [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    require_numbers(file_, table, names[at]);
    columns[at] =
        file_.open_array(table + "/" + names[at],
                         {.rank = 1, .key = static_cast<std::int32_t>(i), .is_of_rows = true});
    if (const std::int64_t n = columns[at]->shape()[0]; n != frame_.n_rows())
      throw_error(ErrorKind::kCorruptData, file_.path(),
                  "a column has the wrong length: '{}/{}': {} rows, expected {}", table, names[at],
                  n, frame_.n_rows());
  });
  return columns;
}

// The type that numpy chooses for columns of several types. A value that it does not hold is an
// error later.
DType FrameMatrix::common_dtype() const {
  const DType first = columns_.front()->dtype();
  const auto all = [&](auto is_one) {
    return std::ranges::all_of(columns_, [&](const auto& c) { return is_one(c->dtype()); });
  };
  if (all([&](DType dtype) { return dtype == first; })) return first;
  if (all([](DType dtype) { return is_integer(dtype) || dtype == DType::kBool; }))
    return DType::kI64;
  return all([](DType dtype) { return dtype == DType::kF32 || dtype_bytes(dtype) <= 2; })
             ? DType::kF32
             : DType::kF64;
}

std::vector<const StoredArray*> FrameMatrix::arrays() const {
  std::vector<const StoredArray*> arrays;
  for (const auto& column : columns_) arrays.push_back(column.get());
  return arrays;
}

void FrameMatrix::describe(StoreInfo& info) const {
  info.nnz = -1;
  info.is_dense = true;
  info.value_dtype = dtype_;
  for (const auto& column : columns_)
    if (!column->is_mapped())
      info.rows_per_chunk = std::max(info.rows_per_chunk, column->chunk_shape()[0]);
}

std::vector<chunked::EntryRange> FrameMatrix::ranges_of(std::span<const std::int64_t> rows) const {
  std::vector<chunked::EntryRange> ranges;
  ranges.reserve(rows.size());
  for (const std::int64_t row : rows) {
    if (row < 0 || row >= n_rows())
      throw_error(ErrorKind::kOutOfRange, file_.path(), "row out of range: {}, rows {}", row,
                  n_rows());
    ranges.push_back({row, row + 1});
  }
  return ranges;
}

void FrameMatrix::throw_misfit(std::size_t c, std::int64_t row, const std::string& value) const {
  throw_error(
      ErrorKind::kPrecision, file_.path(),
      "the columns of '{}' have different types, and a value of '{}' does not fit {}, which "
      "holds the others: row {}, value {}",
      frame_.name(), frame_.columns()[c], dtype_name(dtype_), row, value);
}

std::unique_ptr<FetchedRows> FrameMatrix::begin(const chunked::ChunkCache& cache,
                                                std::span<const std::int64_t> rows,
                                                const ReadContext& context) const {
  return begin_frame_rows(*this, cache, rows, context);
}

ReadPlan FrameMatrix::plan(const chunked::ChunkCache& cache,
                           std::span<const std::int64_t> rows) const {
  const std::vector<chunked::EntryRange> ranges = ranges_of(rows);
  ReadPlan plan{.bytes_held = std::ssize(rows) *
                              static_cast<std::int64_t>(sizeof(std::int64_t) + sizeof(ranges[0]))};
  for (const auto& column : columns_) {
    const chunked::RunsPlan part = chunked::plan_runs(*column, cache, ranges);
    plan.bytes_held += part.bytes_held;
    plan.bytes_inflated += part.bytes_inflated;
  }
  return plan;
}

}  // namespace cellfeed::format::anndata
