// Strategies and plans.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <span>

#include "arrays.h"
#include "bindings.h"
#include "cellfeed/base/error.h"
#include "cellfeed/sampling/block_shuffling.h"
#include "cellfeed/sampling/block_weighted_sampling.h"
#include "cellfeed/sampling/class_balanced_sampling.h"
#include "cellfeed/sampling/group_sampling.h"
#include "cellfeed/sampling/label_index.h"
#include "cellfeed/sampling/plan.h"
#include "cellfeed/sampling/streaming.h"
#include "cellfeed/sampling/weighted_cell_sampler.h"
#include "cellfeed/sampling/whole_shards.h"
#include "gil.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace cellfeed::bindings {
namespace {

using sampling::LabelIndex;
using sampling::Plan;
using sampling::Strategy;
using Size = std::optional<std::int64_t>;
using DoubleArray = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

sampling::Indices to_indices(const std::optional<Int64Array>& array) {
  if (!array) return std::nullopt;
  return std::vector<std::int64_t>(array->data(), array->data() + array->size());
}

std::shared_ptr<Strategy> make_streaming(std::int64_t n_rows,
                                         const std::optional<Int64Array>& indices, bool shuffle,
                                         std::int64_t shuffle_buffer) {
  return std::make_shared<sampling::Streaming>(n_rows, to_indices(indices), shuffle,
                                               shuffle_buffer);
}

std::shared_ptr<Strategy> make_block_shuffling(std::int64_t n_rows, std::int64_t block_size,
                                               const std::optional<Int64Array>& indices,
                                               bool drop_last) {
  return std::make_shared<sampling::BlockShuffling>(n_rows, block_size, to_indices(indices),
                                                    drop_last);
}

std::shared_ptr<Strategy> make_whole_shards(const Int64Array& offsets, std::int64_t n_ranks) {
  return std::make_shared<sampling::WholeShards>(
      std::vector<std::int64_t>(offsets.data(), offsets.data() + offsets.size()), n_ranks);
}

std::shared_ptr<Strategy> make_block_weighted(std::int64_t n_rows,
                                              const std::optional<DoubleArray>& weights,
                                              std::int64_t block_size, Size total_size,
                                              bool replace, Size sampling_size,
                                              const std::optional<Int64Array>& indices) {
  sampling::BlockWeightedOptions options;
  options.block_size = block_size;
  options.total_size = total_size;
  options.replace = replace;
  options.sampling_size = sampling_size;
  std::optional<std::span<const double>> values;
  if (weights) values.emplace(weights->data(), weights->size());
  const ReleasedGil released;
  return std::make_shared<sampling::BlockWeightedSampling>(n_rows, values, options,
                                                           to_indices(indices));
}

std::shared_ptr<LabelIndex> make_labels(std::int64_t n_rows, const Int32Array& codes,
                                        const std::optional<Int64Array>& indices) {
  const std::span<const std::int32_t> values(codes.data(), codes.size());
  const ReleasedGil released;
  return std::make_shared<LabelIndex>(n_rows, values, to_indices(indices));
}

std::shared_ptr<LabelIndex> make_label_runs(std::int64_t n_rows, const Int32Array& codes,
                                            const Int64Array& counts) {
  std::vector<sampling::LabelRun> runs;
  for (std::size_t i = 0; i < codes.size(); ++i)
    runs.push_back({codes.data()[i], counts.data()[i]});
  return std::make_shared<LabelIndex>(n_rows, runs);
}

std::shared_ptr<Strategy> make_class_balanced(std::shared_ptr<LabelIndex> labels,
                                              std::int64_t block_size, Size total_size,
                                              double smoothing, bool replace, Size sampling_size) {
  sampling::ClassBalancedOptions options;
  options.block_size = block_size;
  options.total_size = total_size;
  options.smoothing = smoothing;
  options.replace = replace;
  options.sampling_size = sampling_size;
  const ReleasedGil released;
  return std::make_shared<sampling::ClassBalancedSampling>(std::move(labels), options);
}

std::shared_ptr<Strategy> make_weighted_cells(std::shared_ptr<LabelIndex> labels, bool replacement,
                                              std::int64_t curriculum_warmup_epochs,
                                              Size total_size) {
  sampling::WeightedCellOptions options;
  options.replacement = replacement;
  options.curriculum_warmup_epochs = curriculum_warmup_epochs;
  options.total_size = total_size;
  const ReleasedGil released;
  return std::make_shared<sampling::WeightedCellSampler>(std::move(labels), options);
}

std::shared_ptr<Strategy> make_groups(std::shared_ptr<LabelIndex> groups, bool drop_last) {
  return std::make_shared<sampling::GroupSampling>(std::move(groups),
                                                   sampling::GroupSamplingOptions{drop_last});
}

Plan make_plan(std::shared_ptr<Strategy> strategy, std::uint64_t seed, std::uint64_t epoch,
               std::int64_t batch_size, std::int64_t fetch_factor, std::int64_t rank,
               std::int64_t world_size, const std::string& partition, const std::string& remainder,
               bool drop_last, bool is_chunked, std::int64_t consumed,
               std::int64_t order_step_samples, std::int64_t order_fetch_samples,
               std::int64_t order_batch_size) {
  sampling::PlanOptions options;
  options.batch_size = batch_size;
  options.fetch_factor = fetch_factor;
  options.rank = rank;
  options.world_size = world_size;
  options.partition = sampling::partition_from_name(partition, is_chunked, world_size);
  options.remainder = sampling::remainder_from_name(remainder);
  options.drop_last = drop_last;
  options.consumed = consumed;
  options.order_step_samples = order_step_samples;
  options.order_fetch_samples = order_fetch_samples;
  options.order_batch_size = order_batch_size;
  return Plan(std::move(strategy), options, seed, epoch);
}

nb::typed<nb::tuple, NumpyArray, std::optional<NumpyArray>> plan_batch(const Plan& self,
                                                                       std::int64_t k) {
  if (k < 0 || k >= self.n_batches())
    throw Error(ErrorKind::kOutOfRange,
                fmt::format("no such batch: {} of {}", k, self.n_batches()));
  sampling::BatchPlan batch;
  {
    const ReleasedGil released;
    self.batch(k, batch);
  }
  nb::object padding = nb::none();
  if (!batch.is_padding.empty())
    padding = vector_as_array(std::move(batch.is_padding)).attr("view")("bool");
  return nb::make_tuple(vector_as_array(std::move(batch.rows)), padding);
}

NumpyArray order_of(const Strategy& self, std::uint64_t seed, std::uint64_t epoch,
                    std::int64_t begin, std::int64_t end, std::int64_t stride,
                    std::int64_t step_samples, std::int64_t fetch_samples) {
  const sampling::OrderKey key{seed, epoch, step_samples, fetch_samples};
  if (begin < 0 || end < begin || end > self.length(key) || stride < 1)
    throw Error(ErrorKind::kOutOfRange,
                fmt::format("positions [{}, {}) by {} are outside the order of {}", begin, end,
                            stride, self.length(key)));
  std::vector<std::int64_t> out(static_cast<std::size_t>((end - begin + stride - 1) / stride));
  {
    const ReleasedGil released;
    self.samples(key, begin, stride, out);
  }
  return vector_as_array(std::move(out));
}

}  // namespace

void bind_sampling(nb::module_& module) {
  nb::class_<Strategy>(module, "Strategy")
      .def_prop_ro("name", [](const Strategy& self) { return std::string(self.name()); })
      .def_prop_ro("n_rows", &Strategy::n_rows)
      .def_prop_ro("block_size", &Strategy::block_size)
      .def_prop_ro("fingerprint", &Strategy::fingerprint)
      .def(
          "length",
          [](const Strategy& self, std::uint64_t epoch, std::int64_t step_samples) {
            return self.length({0, epoch, step_samples, step_samples});
          },
          "epoch"_a = 0, "step_samples"_a = 1)
      .def("order", &order_of, "seed"_a, "epoch"_a, "begin"_a, "end"_a, "stride"_a = 1,
           "step_samples"_a = 1, "fetch_samples"_a = 1);
  module.def("make_streaming", &make_streaming, "n_rows"_a, "indices"_a.none(), "shuffle"_a,
             "shuffle_buffer"_a);
  module.def("make_whole_shards", &make_whole_shards, "offsets"_a, "n_ranks"_a);
  module.def("make_block_shuffling", &make_block_shuffling, "n_rows"_a, "block_size"_a,
             "indices"_a.none(), "drop_last"_a);
  nb::class_<LabelIndex>(module, "LabelIndex")
      .def_prop_ro("n_rows", &LabelIndex::n_rows)
      .def_prop_ro("n_bytes", &LabelIndex::bytes);
  module.def("make_labels", &make_labels, "n_rows"_a, "codes"_a, "indices"_a.none());
  module.def("make_label_runs", &make_label_runs, "n_rows"_a, "codes"_a, "counts"_a);
  module.def("make_block_weighted", &make_block_weighted, "n_rows"_a, "weights"_a.none(),
             "block_size"_a, "total_size"_a.none(), "replace"_a, "sampling_size"_a.none(),
             "indices"_a.none());
  module.def("make_class_balanced", &make_class_balanced, "labels"_a, "block_size"_a,
             "total_size"_a.none(), "smoothing"_a, "replace"_a, "sampling_size"_a.none());
  module.def("make_weighted_cells", &make_weighted_cells, "labels"_a, "replacement"_a,
             "curriculum_warmup_epochs"_a, "total_size"_a.none());
  module.def("make_groups", &make_groups, "labels"_a, "drop_last"_a);

  module.def(
      "partition_of",
      [](const std::string& partition, bool is_chunked, std::int64_t world_size) {
        return std::string(sampling::partition_name(
            sampling::partition_from_name(partition, is_chunked, world_size)));
      },
      "partition"_a, "is_chunked"_a, "world_size"_a);
  nb::class_<Plan>(module, "Plan")
      .def_static("make", &make_plan, "strategy"_a, "seed"_a, "epoch"_a, "batch_size"_a,
                  "fetch_factor"_a, "rank"_a, "world_size"_a, "partition"_a, "remainder"_a,
                  "drop_last"_a, "is_chunked"_a = false, "consumed"_a = 0,
                  "order_step_samples"_a = 0, "order_fetch_samples"_a = 0, "order_batch_size"_a = 0)
      .def_prop_ro("n_batches", &Plan::n_batches)
      .def_prop_ro("order_length", &Plan::order_length)
      .def_prop_ro("order_step_samples",
                   [](const Plan& self) { return self.options().order_step_samples; })
      .def_prop_ro("order_fetch_samples",
                   [](const Plan& self) { return self.options().order_fetch_samples; })
      .def_prop_ro("order_batch_size",
                   [](const Plan& self) { return self.options().order_batch_size; })
      .def_prop_ro("partition",
                   [](const Plan& self) {
                     return std::string(sampling::partition_name(self.options().partition));
                   })
      .def("batch", &plan_batch, "batch"_a)
      .def("fetch_group", &Plan::fetch_group, "batch"_a)
      .def("consumed_after", &Plan::consumed_after, "batches"_a);
}

}  // namespace cellfeed::bindings
