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
constexpr std::int64_t kRowsAhead = 2;  // as the reader of .h5ad files asks memory for
constexpr std::int64_t kBytesAhead = 4096;

void prefetch(const std::byte* data, std::int64_t bytes) {
  for (std::int64_t at = 0; at < std::min(bytes, kBytesAhead); at += 64)
    __builtin_prefetch(data + at);
}

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

// Arguments: entries of a row.
template <typename Index, typename Value>
void gather(benchmark::State& state) {
  const auto nnz = static_cast<std::size_t>(state.range(0));
  const Rows<Index, Value> rows(nnz);
  const RowDecoder decoder("file", "X", kGenes, dtype_of<Index>(), dtype_of<Value>());
  std::vector<std::int32_t> indices(kBatchRows * nnz);
  std::vector<float> values(indices.size());
  std::size_t next = 0, n = 0;
  for (auto _ : state) {
    if (next + kBatchRows + kRowsAhead > rows.order.size()) next = 0;
    for (std::size_t i = 0; i < kBatchRows; ++i) {
      const std::size_t ahead = rows.order[next + i + kRowsAhead];
      prefetch(rows.index_piece(ahead).data, static_cast<std::int64_t>(nnz * sizeof(Index)));
      prefetch(rows.value_piece(ahead).data, static_cast<std::int64_t>(nnz * sizeof(Value)));
      const RowPiece index = rows.index_piece(rows.order[next + i]);
      const RowPiece value = rows.value_piece(rows.order[next + i]);
      decoder.decode(0, {&index, 1}, {&value, 1}, DType::kF32, Casting::kExact,
                     indices.data() + i * nnz, values.data() + i * nnz);
    }
    benchmark::ClobberMemory();
    next += kBatchRows;
    n += kBatchRows;
  }
  const std::size_t row_bytes = nnz * (sizeof(Index) + sizeof(Value) + 8);
  micro::report(state, n, n * row_bytes, {micro::kPoolBytes, row_bytes / 2, kBatchRows * nnz * 8});
}

}  // namespace

BENCHMARK(gather<std::int32_t, float>)->ArgName("nnz")->Arg(300)->Arg(1000)->Arg(6000);
BENCHMARK(gather<std::int64_t, float>)->ArgName("nnz")->Arg(1000);
BENCHMARK(gather<std::int32_t, double>)->ArgName("nnz")->Arg(1000);
BENCHMARK(gather<std::int32_t, std::int64_t>)->ArgName("nnz")->Arg(1000);
BENCHMARK_MAIN();
