// Arrow tables to and from Python by the Arrow PyCapsule protocol, which pyarrow, pandas, polars
// and others speak, without a copy.
#pragma once

#include <arrow/type_fwd.h>
#include <nanobind/nanobind.h>

#include <memory>

namespace cellfeed::bindings {

// What Python has of a table. Thread-safe: immutable.
struct Table {
  std::shared_ptr<arrow::Table> table;
  nanobind::capsule export_stream(nanobind::handle requested_schema) const;
};

// Takes a Table, or any object with __arrow_c_stream__ or __arrow_c_array__. Throws kInvalidType
// for other objects, and kInvalidArgument if the object holds no table.
std::shared_ptr<arrow::Table> import_table(nanobind::handle arrow_object);

}  // namespace cellfeed::bindings
