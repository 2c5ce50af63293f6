#include "cellfeed/convert/inputs/cell_origins.h"

#include <arrow/api.h>

#include <algorithm>

#include "cellfeed/format/shard/obs/obs_schema.h"
#include "cellfeed/matrix/arrow_result.h"

namespace cellfeed::convert {
namespace {

namespace shard = format::shard;

constexpr const char* kNotingOrigins = "note the origin of cells";

std::shared_ptr<arrow::Table> with_column(const arrow::Table& table, const char* name,
                                          const std::shared_ptr<arrow::Array>& values) {
  return matrix::check_arrow(
      table.AddColumn(table.num_columns(), arrow::field(name, values->type()),
                      std::make_shared<arrow::ChunkedArray>(values)),
      kNotingOrigins);
}

}  // namespace

bool names_origins(const std::vector<std::string>& obs_names) {
  return std::ranges::find(obs_names, shard::kSourceFileColumn) != obs_names.end();
}

std::shared_ptr<arrow::Table> with_origins(const std::shared_ptr<arrow::Table>& obs,
                                           const std::string& path,
                                           std::span<const std::int64_t> rows) {
  if (obs->GetColumnByName(shard::kSourceFileColumn)) return obs;
  const auto names =
      matrix::check_arrow(arrow::MakeArrayFromScalar(arrow::StringScalar(path), 1), kNotingOrigins);
  const auto codes = matrix::check_arrow(
      arrow::MakeArrayFromScalar(arrow::Int32Scalar(0), obs->num_rows()), kNotingOrigins);
  const auto files =
      matrix::check_arrow(arrow::DictionaryArray::FromArrays(codes, names), kNotingOrigins);
  arrow::Int64Builder numbers;
  matrix::check_arrow(numbers.AppendValues(rows.data(), std::ssize(rows)), kNotingOrigins);
  return with_column(*with_column(*obs, shard::kSourceFileColumn, files), shard::kSourceRowColumn,
                     matrix::check_arrow(numbers.Finish(), kNotingOrigins));
}

}  // namespace cellfeed::convert
