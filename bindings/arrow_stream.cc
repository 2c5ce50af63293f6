#include "arrow_stream.h"

#include <arrow/api.h>
#include <arrow/c/bridge.h>

#include "cellfeed/base/error.h"
#include "gil.h"

namespace nb = nanobind;

namespace cellfeed::bindings {

nb::capsule ArrowStream::export_stream(nb::handle) const {
  auto* stream = new ArrowArrayStream{};
  auto reader = std::make_shared<arrow::TableBatchReader>(table);
  const auto status = arrow::ExportRecordBatchReader(reader, stream);
  if (!status.ok()) {
    delete stream;
    throw Error(ErrorKind::kInternal, status.ToString());
  }
  return nb::capsule(stream, "arrow_array_stream", [](void* p) noexcept {
    auto* owned = static_cast<ArrowArrayStream*>(p);
    if (owned->release != nullptr) owned->release(owned);
    delete owned;
  });
}

std::shared_ptr<arrow::Table> import_table(nb::handle arrow_object) {
  const nb::object capsule =
      call_python([&]() -> nb::object { return arrow_object.attr("__arrow_c_stream__")(); });
  auto* stream =
      static_cast<ArrowArrayStream*>(PyCapsule_GetPointer(capsule.ptr(), "arrow_array_stream"));
  if (stream == nullptr) throw nb::python_error();
  const auto reader = arrow::ImportRecordBatchReader(stream);
  if (!reader.ok()) throw Error(ErrorKind::kInvalidArgument, reader.status().ToString());
  const auto table = (*reader)->ToTable();
  if (!table.ok()) throw Error(ErrorKind::kInvalidArgument, table.status().ToString());
  return *table;
}

}  // namespace cellfeed::bindings
