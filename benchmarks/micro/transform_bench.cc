// Rates of the transforms' kernels on single rows, with the bytes moved a second beside those of
// memcpy. Rows come from the nearer caches, as they do in the loader, which transforms a row when
// it has just been decoded.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "cellfeed/matrix/buffer.h"
#include "cellfeed/transform/normalize.h"
#include "cellfeed/transform/select_genes.h"
#include "cellfeed/transform/simd/row_kernels.h"
#include "cellfeed/transform/simd/value_kernels.h"
#include "cellfeed/transform/token_masking.h"
#include "cellfeed/transform/tokenizer.h"
#include "roofline.h"

namespace {

using namespace cellfeed;  // NOLINT: a program of one file
using micro::Clock;
using micro::report;
using micro::WorkingSet;
using transform::Row;
using transform::RowStores;

constexpr std::size_t kGenes = 18'708;
constexpr std::size_t kRows = 64;

// Rows that stay in the caches: read and written where they lie.
WorkingSet in_place(std::size_t bytes) { return {bytes, bytes, bytes}; }

template <typename T>
struct Cells {
  std::vector<std::int32_t> indices;
  std::vector<T> values;
  std::size_t nnz = 0;
  Row row(std::size_t i) {
    return {indices.data() + i * nnz,
            values.data() + i * nnz,
            dtype_of<T>(),
            static_cast<std::int32_t>(nnz),
            2e4,
            0};
  }
};

// Counts: half of them 1, with a long tail.
template <typename T = float>
Cells<T> make_cells(std::size_t nnz) {
  std::mt19937 random(1);
  std::vector<std::int32_t> all(kGenes);
  std::iota(all.begin(), all.end(), 0);
  Cells<T> cells;
  cells.nnz = nnz;
  for (std::size_t r = 0; r < kRows; ++r) {
    std::sample(all.begin(), all.end(), std::back_inserter(cells.indices), nnz, random);
    for (std::size_t i = 0; i < nnz; ++i)
      cells.values.push_back(static_cast<T>(
          std::min(400.0, 1 / (1e-3 + static_cast<double>(random()) / 4294967296.0))));
    for (std::size_t i = cells.values.size() - nnz; i < cells.values.size(); ++i)
      cells.values[i] = static_cast<T>(static_cast<std::int64_t>(cells.values[i]));
  }
  return cells;
}

// Times change(row) over fresh copies of the rows.
template <typename T, typename Change>
void change_rows(benchmark::State& state, const Cells<T>& cells, std::size_t bytes_per_entry,
                 const Change& change) {
  Cells<T> copy = cells;
  for (auto _ : state) {
    std::copy(cells.indices.begin(), cells.indices.end(), copy.indices.begin());
    std::copy(cells.values.begin(), cells.values.end(), copy.values.begin());
    const auto start = Clock::now();
    for (std::size_t r = 0; r < kRows; ++r) {
      Row row = copy.row(r);
      change(row);
    }
    benchmark::ClobberMemory();
    state.SetIterationTime(std::chrono::duration<double>(Clock::now() - start).count());
  }
  const std::size_t rows = state.iterations() * kRows;
  report(state, rows, rows * cells.nnz * bytes_per_entry, in_place(kRows * cells.nnz * 4));
}

std::vector<std::int32_t> make_map(std::size_t n_kept, bool is_shuffled) {
  std::mt19937 random(2);
  std::vector<std::int32_t> all(kGenes), kept, map(kGenes, -1);
  std::iota(all.begin(), all.end(), 0);
  std::sample(all.begin(), all.end(), std::back_inserter(kept), n_kept, random);
  if (is_shuffled) std::shuffle(kept.begin(), kept.end(), random);
  for (std::size_t i = 0; i < kept.size(); ++i) map[kept[i]] = static_cast<std::int32_t>(i);
  return map;
}

// Arguments: entries of a row, genes kept, whether in another order.
template <typename T>
void remap(benchmark::State& state) {
  const auto places = make_map(static_cast<std::size_t>(state.range(1)), state.range(2) != 0);
  const transform::MapTraits traits = transform::find_traits(places);
  const auto narrow = transform::narrow_places(places, traits);
  const transform::ColumnMap map(places, traits, narrow);
  change_rows(state, make_cells<T>(static_cast<std::size_t>(state.range(0))), 4 + sizeof(T),
              [&](Row& row) { transform::remap_row(row, map); });
}

// A gene join and a selection one after the other, against the one map that the loader makes of
// them. Argument: whether composed.
void join_and_select(benchmark::State& state) {
  const auto join = make_map(18'000, true);
  const auto selection = make_map(2048, false);
  std::vector<std::int32_t> composed = join;
  for (auto& column : composed) column = column < 0 ? -1 : selection[column];
  const bool is_composed = state.range(0) != 0;
  const transform::ColumnMap first(is_composed ? composed : join), second(selection);
  change_rows(state, make_cells<float>(1000), 8, [&](Row& row) {
    transform::remap_row(row, first);
    if (!is_composed) transform::remap_row(row, second);
  });
}

template <typename T>
void library_size(benchmark::State& state) {
  change_rows(state, make_cells<T>(static_cast<std::size_t>(state.range(0))), sizeof(T),
              [](Row& row) {
                const std::span<const T> values(static_cast<const T*>(row.values),
                                                static_cast<std::size_t>(row.size));
                benchmark::DoNotOptimize(transform::sum_values(values));
              });
}

template <typename T>
void normalize_then_log1p(benchmark::State& state) {
  const transform::NormalizeTotal normalize;
  const transform::Log1p log1p;
  change_rows(state, make_cells<T>(static_cast<std::size_t>(state.range(0))), 2 * sizeof(T),
              [&](Row& row) {
                normalize.apply(row);
                log1p.apply(row);
              });
}

template <typename T>
void normalized_log1p(benchmark::State& state) {
  const transform::NormalizedLog1p fused{transform::NormalizeTotal(), transform::Log1p()};
  change_rows(state, make_cells<T>(static_cast<std::size_t>(state.range(0))), 2 * sizeof(T),
              [&](Row& row) { fused.apply(row); });
}

enum class TokenCase { kRank, kRankByMedian, kRankMasked, kBins, kValues };

// Rows of a batch as tokens; all of their genes are in the vocabulary, and none is cut off.
void tokens(benchmark::State& state, TokenCase what) {
  auto cells = make_cells<float>(static_cast<std::size_t>(state.range(0)));
  matrix::GeneAxis genes;
  transform::TokenOptions options{.max_length = 1 << 15};
  std::mt19937_64 random(7);
  std::lognormal_distribution<float> median(0, 0.7f);
  for (std::int32_t g = 0; g < static_cast<std::int32_t>(kGenes); ++g) {
    genes.names.push_back(std::to_string(g));
    options.ids.push_back(transform::kFirstGeneToken + g);
    if (what == TokenCase::kRankByMedian || what == TokenCase::kRankMasked)
      options.medians.push_back(median(random));
  }
  options.genes = genes.names;
  if (what == TokenCase::kBins) options.order = transform::TokenOptions::Order::kBins;
  if (what == TokenCase::kValues) options.order = transform::TokenOptions::Order::kValues;
  const transform::Tokenizer tokenizer(options, genes);
  const transform::TokenMasking masking({}, options.ids);
  std::vector<std::int32_t> ids(cells.nnz + 1);
  std::vector<float> values(cells.nnz + 1);
  std::vector<std::int64_t> labels(cells.nnz + 1);
  change_rows(state, cells, 16, [&](Row& row) {
    const auto key = static_cast<std::uint64_t>(row.indices[0]);
    const auto n = tokenizer.tokenize(row, {}, {key, key, key}, ids.data(), values.data());
    if (what == TokenCase::kRankMasked) {
      const transform::TokenRow out{ids.data(), values.data(), labels.data(), nullptr};
      transform::predict_nothing(out, labels.size());
      masking.hide(out, 1, n, key);
    }
    benchmark::DoNotOptimize(ids.data());
  });
}

// Arguments: columns, entries of a row, rows of a batch. A batch is written and then read once, as
// by its consumer.
template <typename T>
void scatter(benchmark::State& state, RowStores stores) {
  const auto n_cols = static_cast<std::size_t>(state.range(0));
  const auto n_rows = static_cast<std::size_t>(state.range(2));
  auto cells = make_cells<T>(static_cast<std::size_t>(state.range(1)));
  for (std::size_t i = 0; i < cells.indices.size(); ++i)
    cells.indices[i] = static_cast<std::int32_t>(i % cells.nnz * n_cols / cells.nnz);
  matrix::Buffer<T> batch(n_rows * n_cols);
  std::memset(batch.data(), 0, n_rows * n_cols * sizeof(T));
  double read_seconds = 0;
  for (auto _ : state) {
    const auto start = Clock::now();
    for (std::size_t r = 0; r < n_rows; ++r) {
      const std::size_t at = r % kRows * cells.nnz;
      transform::scatter_row(std::span(cells.indices).subspan(at, cells.nnz),
                             cells.values.data() + at, sizeof(T), batch.data() + r * n_cols, n_cols,
                             stores);
    }
    const auto written = Clock::now();
    double total = 0;
    if constexpr (std::is_floating_point_v<T>) total = transform::sum_values(batch.span());
    benchmark::DoNotOptimize(total);
    read_seconds += std::chrono::duration<double>(Clock::now() - written).count();
    state.SetIterationTime(std::chrono::duration<double>(written - start).count());
  }
  const std::size_t rows = state.iterations() * n_rows;
  report(state, rows, rows * n_cols * sizeof(T), in_place(n_rows * n_cols * sizeof(T)));
  state.counters["read us/row"] = 1e6 * read_seconds / static_cast<double>(rows);
}

void scatter_cached(benchmark::State& state) { scatter<float>(state, RowStores::kCached); }
void scatter_streaming(benchmark::State& state) { scatter<float>(state, RowStores::kStreaming); }

void remap_arguments(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"nnz", "kept", "shuffled"})->UseManualTime();
  for (const int nnz : {300, 1000, 6000}) bench->Args({nnz, 2048, 0});
  bench->Args({1000, 2048, 1})->Args({1000, 18'000, 0})->Args({1000, 18'000, 1});
  bench->Args({1000, kGenes, 0})->Args({1000, kGenes, 1});  // a join, which drops none
}
void scatter_arguments(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"cols", "nnz", "rows"})->UseManualTime();
  bench->Args({2048, 110, 64})->Args({2048, 110, 1024})->Args({2048, 110, 8192});
  bench->Args({18'708, 1000, 64})->Args({18'708, 1000, 1024});
}

}  // namespace

BENCHMARK(remap<float>)->Apply(remap_arguments);
BENCHMARK(remap<double>)->Apply(remap_arguments);
BENCHMARK(join_and_select)->ArgName("composed")->Arg(0)->Arg(1)->UseManualTime();
BENCHMARK(library_size<float>)->Arg(300)->Arg(1000)->Arg(6000)->UseManualTime();
BENCHMARK(normalize_then_log1p<float>)->Arg(1000)->UseManualTime();
BENCHMARK(normalized_log1p<float>)->Arg(300)->Arg(1000)->Arg(6000)->UseManualTime();
BENCHMARK(normalized_log1p<double>)->Arg(1000)->UseManualTime();
BENCHMARK(scatter_cached)->Apply(scatter_arguments);
BENCHMARK(scatter_streaming)->Apply(scatter_arguments);
BENCHMARK_CAPTURE(tokens, rank, TokenCase::kRank)->Arg(300)->Arg(2047)->UseManualTime();
BENCHMARK_CAPTURE(tokens, by_median, TokenCase::kRankByMedian)
    ->Arg(300)
    ->Arg(2047)
    ->UseManualTime();
BENCHMARK_CAPTURE(tokens, masked, TokenCase::kRankMasked)->Arg(300)->Arg(2047)->UseManualTime();
BENCHMARK_CAPTURE(tokens, bins, TokenCase::kBins)->Arg(300)->Arg(2047)->UseManualTime();
BENCHMARK_CAPTURE(tokens, values, TokenCase::kValues)->Arg(300)->Arg(2047)->UseManualTime();
BENCHMARK_MAIN();
