// Draws per second of the sampling strategies, and the set-up of their tables; one core.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "cellfeed/sampling/block_shuffling.h"
#include "cellfeed/sampling/block_weighted_sampling.h"
#include "cellfeed/sampling/class_balanced_sampling.h"
#include "cellfeed/sampling/plan.h"
#include "cellfeed/sampling/streaming.h"
#include "cellfeed/sampling/weighted_cell_sampler.h"

namespace cellfeed::sampling {
namespace {

constexpr std::int64_t kBatch = 1024;
constexpr std::int64_t kRows = 100'000'007;
constexpr std::int64_t kWeightedRows = 20'000'000;

// Batches of one rank of `world`, as a loader asks for them.
void draw(benchmark::State& state, std::shared_ptr<const Strategy> strategy,
          std::int64_t world = 1) {
  const Plan plan(std::move(strategy),
                  {.batch_size = kBatch, .fetch_factor = 16, .world_size = world}, 1, 0);
  BatchPlan batch;
  std::int64_t next = 0;
  for (auto _ : state) {
    plan.batch(next, batch);
    benchmark::DoNotOptimize(batch.rows.data());
    next = (next + 1) % (plan.n_batches() - 1);
  }
  state.SetItemsProcessed(state.iterations() * kBatch);
}

std::vector<double> weights(std::int64_t n) {
  std::vector<double> out(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = std::exp(3.0 * static_cast<double>(splitmix64(1, i) >> 11) / 9007199254740992.0);
  }
  return out;
}

std::shared_ptr<const LabelIndex> labels(bool in_runs) {
  std::vector<std::int32_t> codes(static_cast<std::size_t>(kWeightedRows));
  for (std::size_t i = 0; i < codes.size(); ++i) {
    codes[i] = static_cast<std::int32_t>(splitmix64(2, in_runs ? i / 1000 : i) % 1000);
  }
  return std::make_shared<const LabelIndex>(kWeightedRows, codes);
}

void BM_StreamingShuffled(benchmark::State& state) {
  draw(state, std::make_shared<Streaming>(kRows, Indices{}, true));
}
BENCHMARK(BM_StreamingShuffled);

void BM_BlockShuffling(benchmark::State& state) {
  draw(state, std::make_shared<BlockShuffling>(kRows, state.range(0)), state.range(1));
}
BENCHMARK(BM_BlockShuffling)
    ->ArgNames({"block", "world"})
    ->Args({1, 1})
    ->Args({8, 1})
    ->Args({64, 1})
    ->Args({64, 4})
    ->Args({64, 16});

void BM_BlockWeighted(benchmark::State& state) {
  draw(state,
       std::make_shared<BlockWeightedSampling>(kWeightedRows, weights(kWeightedRows),
                                               BlockWeightedOptions{.block_size = state.range(0)}));
}
BENCHMARK(BM_BlockWeighted)->ArgName("block")->Arg(1)->Arg(8)->Arg(64);

void BM_ClassBalanced(benchmark::State& state) {
  draw(state, std::make_shared<ClassBalancedSampling>(
                  labels(state.range(1) != 0), ClassBalancedOptions{.block_size = state.range(0)}));
}
BENCHMARK(BM_ClassBalanced)
    ->ArgNames({"block", "runs"})
    ->Args({1, 0})
    ->Args({8, 0})
    ->Args({1, 1})
    ->Args({8, 1});

void BM_WeightedCell(benchmark::State& state) {
  draw(state, std::make_shared<WeightedCellSampler>(labels(state.range(0) != 0)));
}
BENCHMARK(BM_WeightedCell)->ArgName("runs")->Arg(0)->Arg(1);

// Set-up for user weights; 1e8 of them: items_per_second must be above 20 M/s.
void BM_WeightTables(benchmark::State& state) {
  const std::vector<double> w = weights(kRows);
  for (auto _ : state) {
    const BlockWeightedSampling strategy(kRows, w, {.block_size = state.range(0)});
    state.counters["bytes_per_sample"] =
        static_cast<double>(strategy.bytes()) / static_cast<double>(kRows);
  }
  state.SetItemsProcessed(state.iterations() * kRows);
}
BENCHMARK(BM_WeightTables)
    ->ArgName("block")
    ->Arg(1)
    ->Arg(8)
    ->Arg(64)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace cellfeed::sampling

BENCHMARK_MAIN();
