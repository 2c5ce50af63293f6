#include "cellfeed/matrix/take_rows.h"

#include <arrow/api.h>
#include <arrow/compute/api.h>
#include <fmt/format.h>

#include <iterator>

#include "cellfeed/matrix/arrow_result.h"
#include "cellfeed/matrix/one_array.h"

namespace cellfeed::matrix {

std::shared_ptr<arrow::Table> take_rows(const arrow::Table& table,
                                        std::span<const std::int64_t> rows) {
  arrow::Int64Builder builder;
  check_arrow(builder.Reserve(std::ssize(rows)), "take rows");
  for (const std::int64_t row : rows) {
    if (row < 0)
      builder.UnsafeAppendNull();
    else
      builder.UnsafeAppend(row);
  }
  const std::shared_ptr<arrow::Array> indices = check_arrow(builder.Finish(), "take rows");
  arrow::ChunkedArrayVector columns;
  for (int i = 0; i < table.num_columns(); ++i) {
    const std::shared_ptr<arrow::Array> array =
        check_arrow(one_array(*table.column(i)),
                    fmt::format("join the pieces of column '{}'", table.field(i)->name()));
    columns.push_back(std::make_shared<arrow::ChunkedArray>(check_arrow(
        arrow::compute::Take(*array, *indices, arrow::compute::TakeOptions::NoBoundsCheck()),
        "take rows")));
  }
  return arrow::Table::Make(table.schema(), std::move(columns), indices->length());
}

}  // namespace cellfeed::matrix
