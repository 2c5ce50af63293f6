// Strategies and plans.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <optional>

#include "arrays.h"
#include "bindings.h"
#include "cellfeed/base/error.h"
#include "cellfeed/sampling/block_shuffling.h"
#include "cellfeed/sampling/plan.h"
#include "cellfeed/sampling/streaming.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace cellfeed::bindings {
namespace {

using sampling::Plan;
using sampling::Strategy;

sampling::Indices to_indices(const std::optional<Int64Array>& array) {
  if (!array) return std::nullopt;
  return std::vector<std::int64_t>(array->data(), array->data() + array->size());
}

std::shared_ptr<Strategy> make_streaming(std::int64_t n_rows, const std::optional<Int64Array>& indices,
                                         bool shuffle, std::int64_t shuffle_buffer) {
  return std::make_shared<sampling::Streaming>(n_rows, to_indices(indices), shuffle, shuffle_buffer);
}

std::shared_ptr<Strategy> make_block_shuffling(std::int64_t n_rows, std::int64_t block_size,
                                               const std::optional<Int64Array>& indices,
                                               bool drop_last) {
  return std::make_shared<sampling::BlockShuffling>(n_rows, block_size, to_indices(indices), drop_last);
}

Plan make_plan(std::shared_ptr<Strategy> strategy, std::uint64_t seed, std::uint64_t epoch,
               std::int64_t batch_size, std::int64_t fetch_factor, std::int64_t rank,
               std::int64_t world_size, const std::string& partition, const std::string& remainder,
               bool drop_last, std::int64_t consumed, std::int64_t order_step_samples,
               std::int64_t order_fetch_samples, std::int64_t order_batch_size) {
  sampling::PlanOptions options;
  options.batch_size = batch_size;
  options.fetch_factor = fetch_factor;
  options.rank = rank;
  options.world_size = world_size;
  if (partition == "interleave") options.partition = sampling::Partition::kInterleave;
  else if (partition == "group") options.partition = sampling::Partition::kGroup;
  else throw_invalid("partition must be \"interleave\", \"group\" or \"auto\": '{}'", partition);
  if (remainder == "pad") options.remainder = sampling::Remainder::kPad;
  else if (remainder == "drop") options.remainder = sampling::Remainder::kDrop;
  else if (remainder == "error") options.remainder = sampling::Remainder::kError;
  else throw_invalid("remainder must be \"pad\", \"drop\" or \"error\": '{}'", remainder);
  options.drop_last = drop_last;
  options.consumed = consumed;
  options.order_step_samples = order_step_samples;
  options.order_fetch_samples = order_fetch_samples;
  options.order_batch_size = order_batch_size;
  return Plan(std::move(strategy), options, seed, epoch);
}

nb::tuple plan_batch(const Plan& self, std::int64_t k) {
  if (k < 0 || k >= self.n_batches())
    throw Error(ErrorKind::kOutOfRange, fmt::format("no such batch: {} of {}", k, self.n_batches()));
  sampling::BatchPlan batch;
  self.batch(k, batch);
  nb::object padding = nb::none();
  if (!batch.is_padding.empty())
    padding = vector_as_array(std::move(batch.is_padding)).attr("view")("bool");
  return nb::make_tuple(vector_as_array(std::move(batch.rows)), padding);
}

nb::object order_of(const Strategy& self, std::uint64_t seed, std::uint64_t epoch, std::int64_t begin,
                    std::int64_t end, std::int64_t stride, std::int64_t step_samples,
                    std::int64_t fetch_samples) {
  const sampling::OrderKey key{seed, epoch, step_samples, fetch_samples};
  if (begin < 0 || end < begin || end > self.length(key) || stride < 1)
    throw Error(ErrorKind::kOutOfRange, fmt::format("positions [{}, {}) by {} are outside the order of {}",
                                                    begin, end, stride, self.length(key)));
  std::vector<std::int64_t> out(static_cast<std::size_t>((end - begin + stride - 1) / stride));
  self.samples(key, begin, stride, out);
  return vector_as_array(std::move(out));
}

}  // namespace

void bind_sampling(nb::module_& module) {
  nb::class_<Strategy>(module, "Strategy")
      .def_prop_ro("name", [](const Strategy& self) { return std::string(self.name()); })
      .def_prop_ro("n_rows", &Strategy::n_rows)
      .def_prop_ro("block_size", &Strategy::block_size)
      .def_prop_ro("fingerprint", &Strategy::fingerprint)
      .def("length",
           [](const Strategy& self, std::uint64_t epoch, std::int64_t step_samples) {
             return self.length({0, epoch, step_samples, step_samples});
           },
           "epoch"_a = 0, "step_samples"_a = 1)
      .def("order", &order_of, "seed"_a, "epoch"_a, "begin"_a, "end"_a, "stride"_a = 1,
           "step_samples"_a = 1, "fetch_samples"_a = 1);
  module.def("make_streaming", &make_streaming, "n_rows"_a, "indices"_a.none(), "shuffle"_a,
             "shuffle_buffer"_a);
  module.def("make_block_shuffling", &make_block_shuffling, "n_rows"_a, "block_size"_a,
             "indices"_a.none(), "drop_last"_a);

  nb::class_<Plan>(module, "Plan")
      .def_static("make", &make_plan, "strategy"_a, "seed"_a, "epoch"_a, "batch_size"_a,
                  "fetch_factor"_a, "rank"_a, "world_size"_a, "partition"_a, "remainder"_a,
                  "drop_last"_a, "consumed"_a = 0, "order_step_samples"_a = 0,
                  "order_fetch_samples"_a = 0, "order_batch_size"_a = 0)
      .def_prop_ro("n_batches", &Plan::n_batches)
      .def_prop_ro("order_length", &Plan::order_length)
      .def_prop_ro("order_step_samples", [](const Plan& self) { return self.options().order_step_samples; })
      .def_prop_ro("order_fetch_samples", [](const Plan& self) { return self.options().order_fetch_samples; })
      .def_prop_ro("order_batch_size", [](const Plan& self) { return self.options().order_batch_size; })
      .def("batch_rows", &Plan::batch_rows, "batch"_a)
      .def("batch", &plan_batch, "batch"_a)
      .def("consumed_after", &Plan::consumed_after, "batches"_a);
}

}  // namespace cellfeed::bindings
