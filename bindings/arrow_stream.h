// Arrow tables to and from Python by the Arrow PyCapsule protocol, which pyarrow, pandas and polars
// speak, without a copy.
#pragma once

#include <arrow/type_fwd.h>
#include <nanobind/nanobind.h>

#include <memory>

namespace cellfeed::bindings {

// A table that Python objects are made of.
struct ArrowStream {
  std::shared_ptr<arrow::Table> table;
  nanobind::capsule export_stream(nanobind::handle requested_schema) const;
};

// Of an object that has __arrow_c_stream__. Throws kInvalidArgument.
std::shared_ptr<arrow::Table> import_table(nanobind::handle arrow_object);

}  // namespace cellfeed::bindings
