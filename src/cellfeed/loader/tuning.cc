#include "cellfeed/loader/tuning.h"

#include <algorithm>

#include "cellfeed/base/error.h"
#include "cellfeed/exec/thread_pool.h"
#include "cellfeed/loader/batch_iterator.h"
#include "cellfeed/loader/run_estimate.h"
#include "cellfeed/sampling/plan_statistics.h"

namespace cellfeed::loader {
namespace {

constexpr std::int64_t kBlockSizes[] = {1, 4, 16, 64, 256, 1024, 0};
constexpr std::int64_t kFetchFactors[] = {16, 64};
// Another setting must beat the best one by this much, since rates on a shared machine vary.
constexpr double kClearlyFaster = 1.05;

sampling::Plan plan_of(const collection::Collection& cells, const TuningOptions& options,
                       const TuningPoint& point) {
  sampling::PlanOptions plan;
  plan.batch_size = options.batch_size;
  plan.fetch_factor = point.fetch_factor;
  return sampling::Plan(make_block_strategy(cells.n_rows(), point.block_size), plan, 0, 0);
}

void measure(const std::shared_ptr<const collection::Collection>& cells,
             const TuningOptions& options, TuningPoint& point) {
  LoaderOptions loader;
  loader.memory_budget = options.memory_budget;
  loader.threads = point.threads;
  loader.casting = Casting::kSameKind;
  const auto core = make_loader_core(cells, loader);
  const sampling::Plan plan = plan_of(*cells, options, point);
  std::int64_t rows = 0;
  std::int64_t start = now_ns();
  const auto deadline = start + static_cast<std::int64_t>(options.seconds_per_point * 1e9);
  // An epoch shorter than the time given is read again, as a next epoch would be.
  do {
    BatchIterator iterator(core, plan);
    std::shared_ptr<LoadedBatch> batch;
    for (BatchIterator::Status status;
         (status = iterator.next(20, &batch)) != BatchIterator::Status::kEnd;) {
      if (options.stop.stop_requested())
        throw Error(ErrorKind::kCancelled, "measuring was stopped");
      if (status == BatchIterator::Status::kReady) rows += batch->batch().n_rows();
      if (now_ns() > deadline && rows > 0) break;
    }
  } while (now_ns() < deadline);
  const double seconds = static_cast<double>(now_ns() - start) * 1e-9;
  point.cells_per_second = static_cast<double>(rows) / seconds;
  const auto read = static_cast<double>(core->counters->bytes_read.load());
  const auto used = static_cast<double>(core->counters->bytes_used.load());
  point.megabytes_per_second = read / seconds * 1e-6;
  point.bytes_read_per_used = used > 0 ? read / used : 1;
}

bool is_diverse(const TuningResult& result, const TuningPoint& point, double wanted) {
  return !result.has_labels || point.entropy_bits >= wanted * result.random_entropy_bits;
}

void choose(const TuningOptions& options, TuningResult& result) {
  std::size_t best = result.points.size();
  for (std::size_t i = 0; i < result.points.size(); ++i) {
    const TuningPoint& point = result.points[i];
    // Storage order is never a shuffle: without labels it cannot be judged, so it is not chosen.
    if (point.block_size == 0 || !is_diverse(result, point, options.wanted_entropy)) continue;
    if (best == result.points.size() ||
        point.cells_per_second > kClearlyFaster * result.points[best].cells_per_second)
      best = i;
  }
  result.best = best == result.points.size() ? 0 : best;
}

}  // namespace

TuningResult tune(std::shared_ptr<const collection::Collection> cells,
                  const TuningOptions& options) {
  if (cells->n_rows() == 0) throw_invalid("the collection has no cells to load");
  TuningResult result;
  std::vector<std::int32_t> codes;
  if (!options.label.empty()) codes = label_codes(*cells, options.label);
  const auto label_of = [&](std::int64_t row) { return codes[row]; };
  const int threads = exec::checked_thread_count(options.threads);
  for (const std::int64_t block : kBlockSizes)
    for (const std::int64_t factor : kFetchFactors) {
      // The fetch factor changes neither storage order nor true random.
      if ((block <= 1 && factor != kFetchFactors[0]) || block > cells->n_rows()) continue;
      TuningPoint point{.block_size = block, .fetch_factor = factor, .threads = threads};
      measure(cells, options, point);
      if (!codes.empty()) {
        const auto entropy =
            sampling::expected_label_entropy(plan_of(*cells, options, point), label_of);
        point.entropy_bits = entropy.batch_bits;
        result.random_entropy_bits = std::max(result.random_entropy_bits, entropy.random_bits);
        result.has_labels = result.has_labels || entropy.batches > 0;
      }
      result.points.push_back(point);
    }
  choose(options, result);
  // One thread where more do not help: the others are the model's.
  if (options.threads == 0 && threads > 1) {
    TuningPoint alone = result.points[result.best];
    alone.threads = 1;
    measure(cells, options, alone);
    result.points.push_back(alone);
    if (alone.cells_per_second * kClearlyFaster >= result.points[result.best].cells_per_second)
      result.best = result.points.size() - 1;
  }
  RunSettings settings;
  settings.plan.batch_size = options.batch_size;
  settings.plan.fetch_factor = result.points[result.best].fetch_factor;
  settings.block_size = result.points[result.best].block_size;
  const RunEstimate estimate = estimate_run(*cells, settings);
  const std::int64_t needed = 4 * estimate.fetch_bytes + 16 * estimate.batch_bytes;
  result.memory_budget = std::clamp(needed, std::int64_t{64} << 20, options.memory_budget);
  return result;
}

}  // namespace cellfeed::loader
