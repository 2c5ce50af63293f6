#include "table.h"

#include <arrow/api.h>
#include <arrow/c/bridge.h>
#include <nanobind/stl/pair.h>

#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/matrix/arrow_result.h"
#include "cellfeed/matrix/one_array.h"
#include "gil.h"

namespace nb = nanobind;

namespace cellfeed::bindings {
namespace {

std::shared_ptr<arrow::RecordBatchReader> batches_of(std::shared_ptr<arrow::Table> table) {
  if (table->num_rows() > 0) return std::make_shared<arrow::TableBatchReader>(std::move(table));
  // A batch without rows, for the categories.
  arrow::ArrayVector columns;
  for (const auto& column : table->columns())
    columns.push_back(matrix::check_arrow(matrix::one_array(*column), "give an Arrow table"));
  return matrix::check_arrow(arrow::RecordBatchReader::Make({arrow::RecordBatch::Make(
                                 table->schema(), 0, std::move(columns))}),
                             "give an Arrow table");
}

template <typename T>
T* pointer_in(nb::handle capsule, const char* name) {
  auto* pointer = static_cast<T*>(PyCapsule_GetPointer(capsule.ptr(), name));
  if (pointer == nullptr) throw nb::python_error();
  return pointer;
}

std::shared_ptr<arrow::Table> import_stream(nb::handle arrow_object) {
  const nb::object capsule =
      call_python([&]() -> nb::object { return arrow_object.attr("__arrow_c_stream__")(); });
  const auto reader = matrix::check_arrow(
      arrow::ImportRecordBatchReader(pointer_in<ArrowArrayStream>(capsule, "arrow_array_stream")),
      "take an Arrow table", ErrorKind::kInvalidArgument);
  return matrix::check_arrow(reader->ToTable(), "take an Arrow table", ErrorKind::kInvalidArgument);
}

std::shared_ptr<arrow::Table> import_batch(nb::handle arrow_object) {
  const nb::object given =
      call_python([&]() -> nb::object { return arrow_object.attr("__arrow_c_array__")(); });
  const auto [schema, array] = nb::cast<std::pair<nb::object, nb::object>>(given);
  const auto batch =
      matrix::check_arrow(arrow::ImportRecordBatch(pointer_in<ArrowArray>(array, "arrow_array"),
                                                   pointer_in<ArrowSchema>(schema, "arrow_schema")),
                          "take an Arrow table", ErrorKind::kInvalidArgument);
  return matrix::check_arrow(arrow::Table::FromRecordBatches({batch}), "take an Arrow table",
                             ErrorKind::kInvalidArgument);
}

}  // namespace

nb::capsule Table::export_stream(nb::handle) const {
  const auto reader = batches_of(table);
  auto* stream = new ArrowArrayStream{};
  const auto status = arrow::ExportRecordBatchReader(reader, stream);
  if (!status.ok()) delete stream;
  matrix::check_arrow(status, "give an Arrow table");
  return nb::capsule(stream, "arrow_array_stream", [](void* p) noexcept {
    auto* owned = static_cast<ArrowArrayStream*>(p);
    if (owned->release != nullptr) owned->release(owned);
    delete owned;
  });
}

std::shared_ptr<arrow::Table> import_table(nb::handle arrow_object) {
  if (nb::isinstance<Table>(arrow_object)) return nb::inst_ptr<Table>(arrow_object)->table;
  if (nb::hasattr(arrow_object, "__arrow_c_stream__")) return import_stream(arrow_object);
  if (nb::hasattr(arrow_object, "__arrow_c_array__")) return import_batch(arrow_object);
  throw Error(ErrorKind::kInvalidType,
              fmt::format("an Arrow table is an object that has __arrow_c_stream__ or "
                          "__arrow_c_array__, as those of pyarrow and polars, not {}",
                          nb::type_name(arrow_object.type()).c_str()));
}

}  // namespace cellfeed::bindings
