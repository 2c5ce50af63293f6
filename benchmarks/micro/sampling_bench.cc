// Draws per second of the sampling strategies, and the set-up of tables; one core.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "cellfeed/sampling/block_shuffling.h"

namespace cellfeed::sampling {
namespace {

constexpr std::int64_t kBatch = 1024;

// Batches of rank 0 of one, as a loader asks for them.
void draw(benchmark::State& state, const Strategy& strategy) {
  const OrderKey key{.seed = 1, .epoch = 0, .step_samples = kBatch, .fetch_samples = 16 * kBatch};
  const std::int64_t length = strategy.length(key);
  std::vector<std::int64_t> rows(kBatch);
  std::int64_t begin = 0;
  for (auto _ : state) {
    strategy.samples(key, begin, 1, rows);
    benchmark::DoNotOptimize(rows.data());
    begin += kBatch;
    if (begin + kBatch > length) begin = 0;
  }
  state.SetItemsProcessed(state.iterations() * kBatch);
}

void BM_BlockShuffling(benchmark::State& state) {
  draw(state, BlockShuffling(100'000'007, state.range(0)));
}
BENCHMARK(BM_BlockShuffling)->Arg(1)->Arg(8)->Arg(64);

}  // namespace
}  // namespace cellfeed::sampling
