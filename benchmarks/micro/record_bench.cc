// Rates of packed records: decode to CSR and to dense rows, and encode, with the bytes moved a
// second beside those of memcpy.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <tuple>
#include <vector>

#include "cellfeed/format/shard/record/record.h"
#include "cellfeed/format/shard/record/record_checksum.h"
#include "cellfeed/matrix/buffer.h"
#include "cellfeed/transform/select_genes.h"
#include "cellfeed/transform/simd/row_kernels.h"
#include "roofline.h"

namespace {

using cellfeed::Casting;
using cellfeed::DType;
using cellfeed::format::shard::decode_records;
using cellfeed::format::shard::encode_record;
using cellfeed::format::shard::kRecordPaddingBytes;
using cellfeed::format::shard::OverrunRoom;
using cellfeed::format::shard::RecordView;
using cellfeed::micro::kPoolBytes;
using cellfeed::micro::report;

constexpr std::int64_t kGenes = 20000;
constexpr std::size_t kBatchRows = 1024;

struct Rows {
  std::vector<std::vector<std::int32_t>> indices;
  std::vector<std::vector<float>> values;
};

// Counts of genes with log-normal means, scaled to about nnz detected genes a cell.
Rows make_rows(std::int64_t nnz, std::size_t n_rows, bool normalised) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  std::vector<double> means(kGenes);
  for (double& mean : means) mean = std::exp(2.0 * normal(random));
  double low = 1e-9, high = 1e3;
  for (int step = 0; step < 60; ++step) {
    const double middle = std::sqrt(low * high);
    double detected = 0;
    for (const double mean : means) detected += 1 - std::exp(-mean * middle);
    (detected < static_cast<double>(nnz) ? low : high) = middle;
  }
  Rows rows;
  for (std::size_t row = 0; row < n_rows; ++row) {
    const double depth = low * std::exp(0.3 * normal(random));
    auto& indices = rows.indices.emplace_back();
    auto& values = rows.values.emplace_back();
    double total = 0;
    for (std::int32_t gene = 0; gene < kGenes; ++gene) {
      const double mean = means[static_cast<std::size_t>(gene)] * depth;
      const int count = std::poisson_distribution<int>(std::min(mean, 1e6))(random);
      if (count == 0) continue;
      indices.push_back(gene);
      values.push_back(static_cast<float>(count));
      total += count;
    }
    if (normalised) {
      for (float& value : values) value = std::log1p(value * static_cast<float>(1e4 / total));
    }
  }
  return rows;
}

// Made once: drawing counts takes longer than measuring.
const Rows& rows_of(std::int64_t nnz, std::size_t n_rows, bool normalised) {
  static std::map<std::tuple<std::int64_t, std::size_t, bool>, Rows> made;
  const auto [it, is_new] = made.try_emplace({nnz, n_rows, normalised});
  if (is_new) it->second = make_rows(nnz, n_rows, normalised);
  return it->second;
}

struct Pool {
  std::vector<std::uint8_t> bytes;
  std::vector<RecordView> records;  // in random order
  std::int64_t largest_nnz = 0;
  double bits_per_entry = 0;
};

Pool make_pool(std::int64_t nnz, bool normalised = false) {
  const Rows& rows = rows_of(nnz, 128, normalised);
  Pool pool;
  std::vector<std::size_t> starts;
  std::size_t entries = 0;
  while (pool.bytes.size() < kPoolBytes) {
    const std::size_t row = starts.size() % rows.indices.size();
    starts.push_back(pool.bytes.size());
    if (starts.size() <= rows.indices.size()) {
      encode_record(rows.indices[row], rows.values[row].data(), DType::kF32, pool.bytes);
    } else {
      const std::size_t from = starts[row], to = starts[row + 1];
      pool.bytes.resize(pool.bytes.size() + to - from);
      std::copy_n(pool.bytes.begin() + static_cast<std::ptrdiff_t>(from), to - from,
                  pool.bytes.begin() + static_cast<std::ptrdiff_t>(starts.back()));
    }
    entries += rows.indices[row].size();
  }
  starts.push_back(pool.bytes.size());
  pool.bits_per_entry = 8.0 * static_cast<double>(pool.bytes.size()) / static_cast<double>(entries);
  pool.bytes.resize(pool.bytes.size() + kRecordPaddingBytes);
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    const auto n = static_cast<std::int64_t>(rows.indices[i % rows.indices.size()].size());
    pool.records.push_back({pool.bytes.data() + starts[i], starts[i + 1] - starts[i], n});
    pool.largest_nnz = std::max(pool.largest_nnz, n);
  }
  std::shuffle(pool.records.begin(), pool.records.end(), std::mt19937_64(3));
  return pool;
}

void report_entries(benchmark::State& state, std::size_t rows, std::size_t entries,
                    std::size_t moved_bytes, std::size_t read_bytes, std::size_t write_bytes) {
  const std::size_t piece = moved_bytes / std::max<std::size_t>(rows, 1) / 2;
  report(state, rows, moved_bytes, {read_bytes, piece, write_bytes});
  state.counters["nnz/s"] =
      benchmark::Counter(static_cast<double>(entries), benchmark::Counter::kIsRate);
}

void decode(benchmark::State& state, DType out, OverrunRoom room, bool normalised) {
  const Pool pool = make_pool(state.range(0), normalised);
  std::vector<std::int32_t> indices(kBatchRows * static_cast<std::size_t>(pool.largest_nnz) + 16);
  std::vector<double> values(indices.size());
  std::size_t next = 0, cells = 0, entries = 0, bytes = 0;
  for (auto _ : state) {
    if (next + kBatchRows > pool.records.size()) next = 0;
    const std::span batch(pool.records.data() + next, kBatchRows);
    decode_records(batch, kGenes, DType::kF32, out, Casting::kExact, indices.data(), values.data(),
                   room);
    benchmark::ClobberMemory();
    next += kBatchRows;
    cells += kBatchRows;
    for (const RecordView& record : batch) {
      entries += static_cast<std::size_t>(record.nnz);
      bytes +=
          record.length + static_cast<std::size_t>(record.nnz) * (4 + cellfeed::dtype_bytes(out));
    }
  }
  report_entries(state, cells, entries, bytes, kPoolBytes,
                 indices.size() * (4 + cellfeed::dtype_bytes(out)));
  state.counters["bits/nnz"] = pool.bits_per_entry;
}

void decode_f32(benchmark::State& state) {
  decode(state, DType::kF32, OverrunRoom::k64Bytes, false);
}
void decode_f32_exact_ends(benchmark::State& state) {
  decode(state, DType::kF32, OverrunRoom::kNone, false);
}
void decode_i32(benchmark::State& state) { decode(state, DType::kI32, OverrunRoom::kNone, false); }
void decode_f64(benchmark::State& state) { decode(state, DType::kF64, OverrunRoom::kNone, false); }
void decode_log_normalised(benchmark::State& state) {
  decode(state, DType::kF32, OverrunRoom::kNone, true);
}

// Every so-many-th gene, in their order.
std::vector<std::int32_t> keep_genes(std::size_t n_kept) {
  std::vector<std::int32_t> map(kGenes, -1);
  for (std::size_t i = 0; i < n_kept; ++i) map[i * kGenes / n_kept] = static_cast<std::int32_t>(i);
  return map;
}

// Arguments: entries of a row, columns of the batch (fewer than the genes: a selection of them). As
// the loader does: some records into the nearest cache, and from there to their dense rows.
void decode_dense(benchmark::State& state) {
  constexpr std::size_t kRowsAtOnce = 8;
  const Pool pool = make_pool(state.range(0));
  const auto n_cols = static_cast<std::size_t>(state.range(1));
  const auto places = keep_genes(n_cols);
  const cellfeed::transform::ColumnMap map(places);
  const auto stores = cellfeed::transform::choose_row_stores(
      kBatchRows, static_cast<std::int64_t>(n_cols * sizeof(float)));
  cellfeed::matrix::Buffer<std::int32_t> indices(kRowsAtOnce *
                                                 static_cast<std::size_t>(pool.largest_nnz));
  cellfeed::matrix::Buffer<float> values(indices.size()), batch(kBatchRows * n_cols);
  std::fill(batch.begin(), batch.end(), 0.0f);
  std::size_t next = 0, cells = 0, entries = 0, bytes = 0;
  for (auto _ : state) {
    if (next + kBatchRows > pool.records.size()) next = 0;
    for (std::size_t begin = 0; begin < kBatchRows; begin += kRowsAtOnce) {
      const std::span some(pool.records.data() + next + begin, kRowsAtOnce);
      decode_records(some, kGenes, DType::kF32, DType::kF32, Casting::kExact, indices.data(),
                     values.data(), OverrunRoom::k64Bytes);
      std::int64_t place = 0;
      for (std::size_t r = 0; r < kRowsAtOnce; ++r) {
        cellfeed::transform::Row row{indices.data() + place,
                                     values.data() + place,
                                     DType::kF32,
                                     static_cast<std::int32_t>(some[r].nnz),
                                     0,
                                     0};
        place += some[r].nnz;
        if (n_cols != kGenes) cellfeed::transform::remap_row(row, map);
        cellfeed::transform::scatter_row({row.indices, static_cast<std::size_t>(row.size)},
                                         row.values, sizeof(float),
                                         batch.data() + (begin + r) * n_cols, n_cols, stores);
        entries += static_cast<std::size_t>(some[r].nnz);
        bytes += some[r].length + n_cols * sizeof(float);
      }
    }
    benchmark::ClobberMemory();
    next += kBatchRows;
    cells += kBatchRows;
  }
  report_entries(state, cells, entries, bytes, kPoolBytes, kBatchRows * n_cols * sizeof(float));
}

template <typename Value>
void encode(benchmark::State& state, bool normalised) {
  const Rows& rows = rows_of(state.range(0), 256, normalised);
  std::vector<std::vector<Value>> values;
  for (const auto& row : rows.values) values.emplace_back(row.begin(), row.end());
  std::vector<std::uint8_t> out;
  std::size_t row = 0, cells = 0, entries = 0, bytes = 0;
  for (auto _ : state) {
    if (row == rows.indices.size()) row = 0;
    out.clear();
    encode_record(rows.indices[row], values[row].data(), cellfeed::dtype_of<Value>(), out);
    benchmark::DoNotOptimize(out.data());
    entries += rows.indices[row].size();
    bytes += rows.indices[row].size() * (4 + sizeof(Value)) + out.size();
    ++cells;
    ++row;
  }
  report_entries(state, cells, entries, bytes, bytes / cells * rows.indices.size(), out.size());
}

void encode_counts(benchmark::State& state) { encode<float>(state, false); }
void encode_log_normalised(benchmark::State& state) { encode<float>(state, true); }
// The same values as float64, whose bits end with 29 zeros.
void encode_widened(benchmark::State& state) { encode<double>(state, true); }

// With the checksum that a shard's reader compares: the difference from decode_f32 is its cost.
void decode_f32_checked(benchmark::State& state) {
  const Pool pool = make_pool(state.range(0));
  std::vector<std::int32_t> indices(static_cast<std::size_t>(pool.largest_nnz) + 16);
  std::vector<float> values(indices.size());
  constexpr std::size_t kAhead = 4;
  std::size_t next = 0, cells = 0, entries = 0, bytes = 0;
  std::uint32_t hashes = 0;
  const bool checks = state.range(1) != 0;
  for (auto _ : state) {
    if (next + kBatchRows + kAhead > pool.records.size()) next = 0;
    for (std::size_t i = next; i < next + kBatchRows; ++i) {
      const RecordView& record = pool.records[i];
      const RecordView& ahead = pool.records[i + kAhead];
      cellfeed::format::shard::prefetch_record(ahead.bytes, ahead.length);
      if (checks) hashes ^= cellfeed::format::shard::hash_record({record.bytes, record.length});
      cellfeed::format::shard::decode_record({record.bytes, record.length}, record.nnz, kGenes,
                                             DType::kF32, DType::kF32, Casting::kExact,
                                             indices.data(), values.data(), OverrunRoom::k64Bytes);
      entries += static_cast<std::size_t>(record.nnz);
      bytes += record.length + static_cast<std::size_t>(record.nnz) * 8;
    }
    benchmark::DoNotOptimize(hashes);
    benchmark::ClobberMemory();
    next += kBatchRows;
    cells += kBatchRows;
  }
  report_entries(state, cells, entries, bytes, kPoolBytes, indices.size() * 8);
}

}  // namespace

BENCHMARK(decode_f32)->Arg(300)->Arg(1000)->Arg(1500)->Arg(6000);
BENCHMARK(decode_f32_exact_ends)->Arg(300)->Arg(1000)->Arg(1500)->Arg(6000);
BENCHMARK(decode_i32)->Arg(1000);
BENCHMARK(decode_f64)->Arg(1000);
BENCHMARK(decode_log_normalised)->Arg(1000);
BENCHMARK(decode_dense)
    ->ArgNames({"nnz", "cols"})
    ->Args({300, kGenes})
    ->Args({1000, kGenes})
    ->Args({6000, kGenes})
    ->Args({1000, 2048});
BENCHMARK(encode_counts)->Arg(300)->Arg(1000)->Arg(6000);
BENCHMARK(encode_log_normalised)->Arg(1000);
BENCHMARK(encode_widened)->Arg(1000);
BENCHMARK(decode_f32_checked)
    ->ArgNames({"nnz", "checks"})
    ->ArgsProduct({{300, 1000, 6000}, {0, 1}});
BENCHMARK_MAIN();
