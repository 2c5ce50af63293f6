// Rates of gathering plain CSR rows, as of uncompressed .h5ad files: indices checked and copied,
// values copied or converted, with the bytes moved a second beside those of memcpy.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "cellfeed/format/csr_row.h"
#include "roofline.h"

namespace {

using namespace cellfeed;  // NOLINT: a program of one file
using format::RowDecoder;
using format::RowPiece;

constexpr std::int64_t kGenes = 18'708;
constexpr std::size_t kBatchRows = 1024;

// Rows of nnz entries each, as a file holds them.
template <typename Index, typename Value>
struct Rows {
  std::size_t nnz;
  std::vector<Index> indices;
  std::vector<Value> values;
  std::vector<std::size_t> order;

  explicit Rows(std::size_t entries) : nnz(entries) {
    std::mt19937_64 random(1);
    std::vector<std::int32_t> all(kGenes), row;
    std::iota(all.begin(), all.end(), 0);
    order.resize(micro::kPoolBytes / (nnz * (sizeof(Index) + sizeof(Value))));
    for (std::size_t r = 0; r < order.size(); ++r) {
      if (r < 64) {
        row.clear();
        std::sample(all.begin(), all.end(), std::back_inserter(row), nnz, random);
        indices.insert(indices.end(), row.begin(), row.end());
      } else {
        const auto first = static_cast<std::ptrdiff_t>((r - 64) * nnz);
        indices.resize((r + 1) * nnz);
        std::copy_n(indices.begin() + first, nnz, indices.end() - static_cast<std::ptrdiff_t>(nnz));
      }
      order[r] = r;
    }
    values.assign(indices.size(), Value{3});
    std::shuffle(order.begin(), order.end(), random);
  }
  RowPiece index_piece(std::size_t row) const {
    return {reinterpret_cast<const std::byte*>(indices.data() + row * nnz),
            static_cast<std::int64_t>(nnz)};
  }
  RowPiece value_piece(std::size_t row) const {
    return {reinterpret_cast<const std::byte*>(values.data() + row * nnz),
            static_cast<std::int64_t>(nnz)};
  }
};

// Arguments: entries of a row, whether rows go past the caches.
template <typename Index, typename Value>
void gather(benchmark::State& state) {
  const auto nnz = static_cast<std::size_t>(state.range(0));
  const bool past_caches = state.range(1) != 0;
  const Rows<Index, Value> rows(nnz);
  const RowDecoder decoder("file", "X", kGenes, dtype_of<Index>(), dtype_of<Value>());
  std::vector<std::int32_t> indices(kBatchRows * nnz);
  std::vector<float> values(indices.size());
  std::size_t next = 0, n = 0;
  for (auto _ : state) {
    if (next + kBatchRows + 1 > rows.order.size()) next = 0;
    for (std::size_t i = 0; i < kBatchRows; ++i) {
      const RowPiece index = rows.index_piece(rows.order[next + i]);
      const RowPiece value = rows.value_piece(rows.order[next + i]);
      const RowPiece next_index = rows.index_piece(rows.order[next + i + 1]);
      const RowPiece next_value = rows.value_piece(rows.order[next + i + 1]);
      decoder.decode(0, {&index, 1}, {&value, 1}, DType::kF32, Casting::kExact,
                     indices.data() + i * nnz, values.data() + i * nnz,
                     {{&next_index, 1}, {&next_value, 1}, past_caches});
    }
    format::publish_row_copies(past_caches);
    benchmark::ClobberMemory();
    next += kBatchRows;
    n += kBatchRows;
  }
  const std::size_t row_bytes = nnz * (sizeof(Index) + sizeof(Value) + 8);
  micro::report(state, n, n * row_bytes, {micro::kPoolBytes, row_bytes / 2, kBatchRows * nnz * 8});
}

}  // namespace

BENCHMARK(gather<std::int32_t, float>)
    ->ArgNames({"nnz", "past_caches"})
    ->ArgsProduct({{300, 1000, 6000}, {0, 1}});
BENCHMARK(gather<std::int64_t, float>)->ArgNames({"nnz", "past_caches"})->Args({1000, 0});
BENCHMARK(gather<std::int32_t, double>)->ArgNames({"nnz", "past_caches"})->Args({1000, 0});
BENCHMARK(gather<std::int32_t, std::int64_t>)->ArgNames({"nnz", "past_caches"})->Args({1000, 0});
BENCHMARK_MAIN();
