// Estimates and measurements of a run: what cellfeed plan and cellfeed bench print.
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "bindings.h"
#include "cellfeed/loader/tuning.h"
#include "watched_work.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace cellfeed::bindings {
namespace {

nb::dict point_dict(const loader::TuningPoint& point) {
  nb::dict out;
  out["block_size"] = point.block_size;
  out["fetch_factor"] = point.fetch_factor;
  out["threads"] = point.threads;
  out["cells_per_second"] = point.cells_per_second;
  out["megabytes_per_second"] = point.megabytes_per_second;
  out["bytes_read_per_used"] = point.bytes_read_per_used;
  out["label_entropy_bits"] = point.entropy_bits;
  return out;
}

nb::dict tune(std::shared_ptr<const collection::Collection> cells, std::int64_t batch_size,
              const std::string& label, double wanted_entropy, double seconds_per_point,
              std::int64_t memory_budget, int threads) {
  loader::TuningOptions options;
  options.batch_size = batch_size;
  options.label = label;
  options.wanted_entropy = wanted_entropy;
  options.seconds_per_point = seconds_per_point;
  options.memory_budget = memory_budget;
  options.threads = threads;
  const loader::TuningResult result = run_watched(nb::none(), [&](auto, const auto& stop) {
    options.stop = stop;
    return loader::tune(std::move(cells), options);
  });
  nb::dict out = point_dict(result.points[result.best]);
  out["memory_budget"] = result.memory_budget;
  out["random_entropy_bits"] = result.random_entropy_bits;
  nb::list points;
  for (const auto& point : result.points) points.append(point_dict(point));
  out["points"] = points;
  return out;
}

}  // namespace

void bind_tuning(nb::module_& module) {
  module.def("tune", &tune, "collection"_a, "batch_size"_a, "label"_a, "wanted_entropy"_a,
             "seconds_per_point"_a, "memory_budget"_a, "threads"_a);
}

}  // namespace cellfeed::bindings
