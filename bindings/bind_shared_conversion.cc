// Conversions whose shards several processes write.
#include <nanobind/nanobind.h>
#include <nanobind/stl/unique_ptr.h>

#include <memory>
#include <utility>

#include "bindings.h"
#include "cellfeed/convert/result_text.h"
#include "cellfeed/convert/shard_worker.h"
#include "cellfeed/convert/shared_conversion.h"
#include "conversion_options.h"
#include "gil.h"
#include "waiting_calls.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace cellfeed::bindings {
namespace {

using convert::ShardWorker;
using convert::SharedConversion;

// Giving the folder back asks its file system, for which other threads of Python need not wait.
struct HeldConversion {
  explicit HeldConversion(const convert::SharedOptions& options)
      : conversion(std::make_unique<SharedConversion>(options)) {}
  HeldConversion(const HeldConversion&) = delete;
  HeldConversion& operator=(const HeldConversion&) = delete;
  ~HeldConversion() {
    const ReleasedGil released;
    conversion.reset();
  }

  std::unique_ptr<SharedConversion> conversion;  // never null
};

std::unique_ptr<HeldConversion> begin_shared_conversion(const std::string& text, GivenCells cells,
                                                        int threads, std::int64_t memory_budget,
                                                        const nb::object& progress) {
  convert::SharedOptions options = convert::shared_options_of(text);
  options.convert.input = input_cells(std::move(cells));
  return run_with(options.convert, threads, memory_budget, progress,
                  [&](auto&) { return std::make_unique<HeldConversion>(options); });
}

std::unique_ptr<ShardWorker> open_shard_worker(const std::string& task, GivenCells cells,
                                               int threads, std::int64_t memory_budget,
                                               std::int64_t n_callers) {
  const convert::InputCells input = input_cells(std::move(cells));
  ShardWorker::Resources resources{.threads = threads, .n_callers = n_callers};
  if (memory_budget > 0) resources.memory_budget = memory_budget;
  return call_released(true, [&] { return std::make_unique<ShardWorker>(task, input, resources); });
}

std::vector<std::string> write_shards(ShardWorker& worker, const std::vector<std::int64_t>& shards,
                                      const nb::object& progress) {
  return run_watched(progress, [&](const auto& report, const auto& stop) {
    return worker.write(shards, report, stop);
  });
}

void add(HeldConversion& held, const std::string& shard) {
  call_released(true, [&] { held.conversion->add(shard); });
}

convert::SharedResult finished(HeldConversion& held) {
  return call_released(true, [&] { return held.conversion->finish(); });
}

nb::dict finish(HeldConversion& held) {
  const convert::SharedResult result = finished(held);
  return result.processed ? dict_of(*result.processed) : dict_of(result.shards);
}

// What the program prints.
std::string finish_as_text(HeldConversion& held, const std::string& output, bool as_json) {
  const convert::SharedResult made = finished(held);
  const auto text_of = [&](const auto& result) {
    return as_json ? convert::result_json(output, result) : convert::result_text(output, result);
  };
  return made.processed ? text_of(*made.processed) : text_of(made.shards);
}

}  // namespace

void bind_shared_conversion(nb::module_& module) {
  const auto call = [](auto method) {
    return [method](const HeldConversion& held) { return ((*held.conversion).*method)(); };
  };
  nb::class_<HeldConversion>(module, "SharedConversion")
      .def_prop_ro("task", call(&SharedConversion::task))
      .def_prop_ro("paths", call(&SharedConversion::paths))
      .def_prop_ro("n_cells", call(&SharedConversion::n_cells))
      .def_prop_ro("n_shards", call(&SharedConversion::n_shards))
      .def("missing_shards", call(&SharedConversion::missing_shards))
      .def(
          "cells_of",
          [](const HeldConversion& held, std::int64_t shard) {
            return held.conversion->cells_of(shard);
          },
          "shard"_a)
      .def("add", &add, "shard"_a)
      .def("finish", &finish)
      .def("finish_as_text", &finish_as_text, "output"_a, "as_json"_a);
  nb::class_<ShardWorker>(module, "ShardWorker")
      .def("is_under_way",
           [](const ShardWorker& worker) {
             return call_released(true, [&] { return worker.is_under_way(); });
           })
      .def("write", &write_shards, "shards"_a, "progress"_a.none());
  module.def("begin_shared_conversion", &begin_shared_conversion, "options"_a, "cells"_a,
             "threads"_a, "memory_budget"_a, "progress"_a.none());
  module.def("open_shard_worker", &open_shard_worker, "task"_a, "cells"_a, "threads"_a,
             "memory_budget"_a, "n_callers"_a);
}

}  // namespace cellfeed::bindings
