#include "cellfeed/loader/run_estimate.h"

#include <algorithm>
#include <cmath>

#include "cellfeed/base/error.h"
#include "cellfeed/loader/rows_by_store.h"
#include "cellfeed/sampling/block_shuffling.h"
#include "cellfeed/sampling/plan_statistics.h"
#include "cellfeed/sampling/streaming.h"

namespace cellfeed::loader {
namespace {

// Below this share of true random's entropy a batch is called poor in diversity.
constexpr double kPoorDiversity = 0.95;

double entropy_of(const collection::Collection& cells, const RunSettings& settings,
                  std::int64_t block_size, std::int64_t fetch_factor,
                  const std::vector<std::int32_t>& codes) {
  sampling::PlanOptions options = settings.plan;
  options.fetch_factor = fetch_factor;
  const sampling::Plan plan(make_block_strategy(cells.n_rows(), block_size), options, settings.seed,
                            0);
  return sampling::expected_label_entropy(
             plan, [&](std::int64_t row) { return codes[row]; }, 16)
      .batch_bits;
}

// The largest block, then the smallest fetch factor, that keep the diversity.
Advice advise_diversity(const collection::Collection& cells, const RunSettings& settings,
                        const RunEstimate& estimate, const std::vector<std::int32_t>& codes) {
  Advice advice;
  advice.warning =
      fmt::format("batches hold {:.2f} bits of label entropy where random ones hold {:.2f}",
                  estimate.entropy_bits, estimate.random_entropy_bits);
  const double wanted = kPoorDiversity * estimate.random_entropy_bits;
  const std::int64_t factor = settings.plan.fetch_factor;
  for (std::int64_t block = settings.block_size > 0 ? settings.block_size / 2 : 64; block >= 1;
       block /= 2)
    if (entropy_of(cells, settings, block, factor, codes) >= wanted) {
      advice.remedy = fmt::format("block size {}", block);
      break;
    }
  if (settings.block_size > 0)
    for (std::int64_t more = 2 * factor; more <= 64 * factor; more *= 2)
      if (entropy_of(cells, settings, settings.block_size, more, codes) >= wanted) {
        advice.remedy +=
            fmt::format("{}fetch factor {}", advice.remedy.empty() ? "" : ", or ", more);
        break;
      }
  if (advice.remedy.empty()) advice.remedy = "block size 1";
  return advice;
}

void estimate_bytes(const collection::Collection& cells, const RunSettings& settings,
                    const sampling::Plan& plan, RunEstimate& estimate) {
  double row_bytes = 0;
  double nnz = 0;
  std::int64_t rows_per_chunk = 1;
  for (std::size_t m = 0; m < cells.n_matrices(); ++m)
    for (std::int64_t s = 0; s < cells.matrix(m).n_stores(); ++s) {
      const auto& info = cells.matrix(m).store(s).info();
      row_bytes += static_cast<double>(info.bytes_on_disk);
      nnz += static_cast<double>(info.nnz);
      rows_per_chunk = std::max(rows_per_chunk, info.rows_per_chunk);
    }
  row_bytes /= static_cast<double>(cells.n_stored_rows());
  nnz /= static_cast<double>(cells.n_stored_rows());
  const auto shape = sampling::expected_fetch_shape(plan, rows_per_chunk);
  estimate.fetch_rows = shape.rows;
  estimate.fetch_runs = shape.runs;
  const double rows_of_rank =
      static_cast<double>(estimate.cells) / static_cast<double>(settings.plan.world_size);
  estimate.bytes_used = rows_of_rank * row_bytes;
  estimate.bytes_read =
      shape.rows > 0
          ? rows_of_rank / shape.rows * std::max(shape.chunk_rows, shape.distinct_rows) * row_bytes
          : 0;
  if (nnz > 0)
    estimate.batch_bytes =
        static_cast<std::int64_t>(nnz * 8 * static_cast<double>(plan.batch_rows(0)));
  std::vector<sampling::BatchPlan> group;
  for (std::int64_t k = 0; k < std::min(settings.plan.fetch_factor, plan.n_batches()); ++k)
    plan.batch(k, group.emplace_back());
  estimate.fetch_bytes =
      plan_rows(cells, locate_batches(cells, std::move(group))).work.reads.bytes_held;
}

void advise(const collection::Collection& cells, const RunSettings& settings,
            RunEstimate& estimate) {
  const auto& plan = settings.plan;
  const std::int64_t group = plan.batch_size * plan.fetch_factor;
  const std::int64_t groups = (cells.n_rows() + group - 1) / group;
  if (plan.partition == sampling::Partition::kGroup && groups < plan.world_size)
    estimate.advice.push_back(
        {fmt::format("{} fetch groups cannot be dealt whole to {} ranks, so they are split", groups,
                     plan.world_size),
         fmt::format(
             "fetch factor {} or less",
             std::max<std::int64_t>(1, cells.n_rows() / plan.batch_size / plan.world_size))});
  if (estimate.bytes_read > 2 * estimate.bytes_used)
    estimate.advice.push_back(
        {fmt::format("{:.1f} bytes are read and inflated for each byte used",
                     estimate.bytes_read / estimate.bytes_used),
         "a larger block size, a larger fetch factor, or packed shards (cellfeed shard)"});
  if (estimate.fetch_bytes > settings.memory_budget / 2)
    estimate.advice.push_back(
        {fmt::format("one fetch group takes {} MB of the memory budget of {} MB",
                     estimate.fetch_bytes >> 20, settings.memory_budget >> 20),
         "a larger memory budget, a smaller fetch factor, or packed shards (cellfeed shard)"});
  if (plan.remainder == sampling::Remainder::kPad && estimate.padded * 10 > cells.n_rows())
    estimate.advice.push_back(
        {fmt::format("{} of the samples are repeats that fill up ranks", estimate.padded),
         "fewer ranks, or remainder \"drop\""});
}

}  // namespace

std::shared_ptr<const sampling::Strategy> make_block_strategy(std::int64_t n_rows,
                                                              std::int64_t block_size) {
  if (block_size == 0) return std::make_shared<sampling::Streaming>(n_rows);
  return std::make_shared<sampling::BlockShuffling>(n_rows, block_size);
}

std::vector<std::int32_t> label_codes(const collection::Collection& cells,
                                      const std::string& name) {
  const auto column = cells.obs_column(name);
  if (!column->is_categorical())
    throw_invalid("label entropy needs a column of labels; this one holds {}: '{}'",
                  dtype_name(column->dtype()), name);
  constexpr std::int64_t kStep = 65536;
  std::vector<std::int32_t> codes(static_cast<std::size_t>(cells.n_rows()));
  std::vector<collection::RowPlace> places;
  std::vector<std::int64_t> wide;
  for (std::int64_t begin = 0; begin < cells.n_rows(); begin += kStep) {
    const std::int64_t end = std::min(cells.n_rows(), begin + kStep);
    places.clear();
    for (std::int64_t row = begin; row < end; ++row) places.push_back(cells.locate(row));
    wide.resize(places.size());
    column->gather(places, wide.data());
    std::transform(wide.begin(), wide.end(), codes.begin() + begin,
                   [](std::int64_t code) { return static_cast<std::int32_t>(code); });
  }
  return codes;
}

RunEstimate estimate_run(const collection::Collection& cells, const RunSettings& settings) {
  if (cells.n_rows() == 0) throw_invalid("the collection has no cells to load");
  const sampling::Plan plan(make_block_strategy(cells.n_rows(), settings.block_size), settings.plan,
                            settings.seed, 0);
  RunEstimate estimate;
  estimate.batches_per_rank = plan.n_batches();
  std::int64_t dealt = 0;
  if (plan.n_batches() > 0) {
    estimate.last_batch_rows = plan.batch_rows(plan.n_batches() - 1);
    dealt = ((plan.n_batches() - 1) * plan.batch_rows(0) + estimate.last_batch_rows) *
            settings.plan.world_size;
  }
  estimate.cells = dealt;
  estimate.padded = std::max<std::int64_t>(0, dealt - plan.order_length());
  estimate.dropped = std::max<std::int64_t>(0, plan.order_length() - dealt);
  if (plan.n_batches() == 0) return estimate;
  estimate_bytes(cells, settings, plan, estimate);
  if (!settings.label.empty()) {
    const auto codes = label_codes(cells, settings.label);
    const auto entropy =
        sampling::expected_label_entropy(plan, [&](std::int64_t row) { return codes[row]; });
    estimate.has_labels = entropy.batches > 0;
    estimate.entropy_bits = entropy.batch_bits;
    estimate.random_entropy_bits = entropy.random_bits;
    if (estimate.has_labels && entropy.batch_bits < kPoorDiversity * entropy.random_bits)
      estimate.advice.push_back(advise_diversity(cells, settings, estimate, codes));
  }
  advise(cells, settings, estimate);
  return estimate;
}

}  // namespace cellfeed::loader
