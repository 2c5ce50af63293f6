// Filters: which rows of a collection an expression is true of.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "cellfeed/collection/filter.h"
#include "cellfeed/exec/thread_pool.h"
#include "waiting_calls.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace cellfeed::bindings {
namespace {

using collection::Collection;

// Rows that a filter is true of, and what to say of it. args: of the filter, after its collection.
template <typename... Args>
nb::tuple rows_of(const std::shared_ptr<const Collection>& cells, const Args&... args) {
  auto rows = std::make_shared<std::vector<std::int64_t>>();
  const std::vector<std::string> warnings = call_released(cells->is_remote(), [&] {
    const collection::Filter filter(cells, args...);  // reads columns
    const auto pool = exec::shared_pool(exec::checked_thread_count(0));
    *rows = filter.rows([&](std::int64_t n, const std::function<void(std::int64_t)>& task) {
      pool->parallel_for(n, task);
    });
    return filter.warnings();
  });
  return nb::make_tuple(untyped_as_array(DType::kI64, reinterpret_cast<std::byte*>(rows->data()),
                                         {rows->size()}, rows),
                        warnings);
}

nb::tuple rows_where(const std::shared_ptr<const Collection>& cells, const std::string& text,
                     const std::string& what) {
  return rows_of(cells, text, what);
}

nb::tuple rows_with(const std::shared_ptr<const Collection>& cells,
                    const collection::Filter::OneOfEach& wanted) {
  return rows_of(cells, wanted);
}

}  // namespace

void bind_filter(nb::module_& module) {
  module.def("rows_where", &rows_where, "cells"_a, "text"_a, "what"_a);
  module.def("rows_with", &rows_with, "cells"_a, "wanted"_a);
}

}  // namespace cellfeed::bindings
