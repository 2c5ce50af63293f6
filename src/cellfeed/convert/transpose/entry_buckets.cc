#include "cellfeed/convert/transpose/entry_buckets.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "cellfeed/base/dtype.h"
#include "cellfeed/base/error.h"

namespace cellfeed::convert {
namespace {

using format::Entries;
using format::EntryParts;

constexpr std::int64_t kMaxBuckets = std::int64_t{1} << 15;

// An entry as it waits in a bucket.
#pragma pack(push, 1)
template <typename Column, typename Value>
struct PackedEntry {
  std::uint16_t row;  // in the bucket
  Column column;
  Value value;
};
#pragma pack(pop)

// Calls fn with a PackedEntry: values are moved as bytes, whatever they mean.
template <typename Fn>
decltype(auto) with_entry(std::int64_t n_cols, DType value_dtype, Fn&& fn) {
  const auto with_value = [&](auto column) {
    using Column = decltype(column);
    switch (dtype_bytes(value_dtype)) {
      case 1:
        return fn(PackedEntry<Column, std::uint8_t>{});
      case 2:
        return fn(PackedEntry<Column, std::uint16_t>{});
      case 4:
        return fn(PackedEntry<Column, std::uint32_t>{});
      default:
        return fn(PackedEntry<Column, std::uint64_t>{});
    }
  };
  if (n_cols <= std::int64_t{1} << 16) return with_value(std::uint16_t{});
  return with_value(std::uint32_t{});
}

}  // namespace

EntryBuckets::EntryBuckets(const format::EntryStore& store, exec::ThreadPool& pool,
                           const TransposeOptions& options)
    : store_(store),
      entry_bytes_(with_entry(store.info().n_cols, store.info().value_dtype,
                              [](auto entry) { return static_cast<std::int64_t>(sizeof entry); })) {
  count_entries(pool, options);
  place_rows(options.memory_bytes);
  buckets_.emplace(options.dir, std::max<std::int64_t>(1, n_buckets()), options.memory_bytes / 2,
                   "gathering rows");
  scatter_entries(pool, options);
}

void EntryBuckets::count_entries(exec::ThreadPool& pool, const TransposeOptions& options) {
  counts_.resize(static_cast<std::size_t>(store_.info().n_rows));
  pass_over_pieces<Entries>(
      store_, pool, options, "counting what cells hold", store_.piece_bytes(),
      [&](std::int64_t piece) {
        Entries entries;
        store_.read_piece(piece, EntryParts::kRows, entries);
        return entries;
      },
      [&](Entries&& entries) {
        for (std::int64_t i = 0; i < entries.n; ++i) ++counts_[entries.rows.data()[i]];
        return entries.n;
      });
  for (std::size_t row = 0; row < counts_.size(); ++row)
    require_row_size(store_, static_cast<std::int64_t>(row), counts_[row]);
}

void EntryBuckets::place_rows(std::int64_t memory_bytes) {
  first_rows_ = cut_rows(counts_, std::max(entries_of_bucket(memory_bytes, entry_bytes_),
                                           store_.n_entries() / (kMaxBuckets / 2)));
  if (n_buckets() > std::int64_t{1} << 16)
    throw_error(ErrorKind::kUnsupported, store_.info().path,
                "too many rows to be transposed ({}): {}", store_.info().layer,
                store_.info().n_rows);
  bucket_of_.resize(counts_.size());
  for (std::size_t bucket = 0; bucket + 1 < first_rows_.size(); ++bucket)
    std::fill(bucket_of_.begin() + first_rows_[bucket],
              bucket_of_.begin() + first_rows_[bucket + 1], static_cast<std::uint16_t>(bucket));
}

EntryBuckets::ScatteredPiece EntryBuckets::scatter_piece(std::int64_t piece) const {
  thread_local Entries entries;
  store_.read_piece(piece, EntryParts::kAll, entries);
  const std::uint32_t* rows = entries.rows.data();
  ScatteredPiece out;
  out.ends.resize(static_cast<std::size_t>(n_buckets()));
  for (std::int64_t i = 0; i < entries.n; ++i) ++out.ends[bucket_of_[rows[i]]];
  std::int64_t begin = 0;
  for (std::int64_t& end : out.ends) end = std::exchange(begin, begin + end);
  out.bytes.resize(static_cast<std::size_t>(entries.n * entry_bytes_));
  with_entry(store_.info().n_cols, store_.info().value_dtype, [&](auto zero) {
    using Entry = decltype(zero);
    using Value = decltype(Entry::value);
    auto* to = reinterpret_cast<Entry*>(out.bytes.data());
    const std::byte* values = entries.values.data();
    for (std::int64_t i = 0; i < entries.n; ++i) {
      const std::uint16_t bucket = bucket_of_[rows[i]];
      Entry entry;
      entry.row = static_cast<std::uint16_t>(rows[i] - first_rows_[bucket]);
      entry.column = static_cast<decltype(Entry::column)>(entries.columns.data()[i]);
      Value value;
      std::memcpy(&value, values + i * static_cast<std::int64_t>(sizeof value), sizeof value);
      entry.value = value;
      to[out.ends[bucket]++] = entry;
    }
  });
  for (std::int64_t& end : out.ends) end *= entry_bytes_;
  return out;
}

void EntryBuckets::scatter_entries(exec::ThreadPool& pool, const TransposeOptions& options) {
  pass_over_pieces<ScatteredPiece>(
      store_, pool, options, "gathering rows", 2 * store_.piece_bytes(),
      [&](std::int64_t piece) { return scatter_piece(piece); },
      [&](ScatteredPiece&& piece) {
        std::int64_t begin = 0;
        for (std::int64_t bucket = 0; bucket < n_buckets(); ++bucket) {
          const std::int64_t end = piece.ends[static_cast<std::size_t>(bucket)];
          if (end == begin) continue;
          buckets_->append(bucket, std::span(piece.bytes)
                                       .subspan(static_cast<std::size_t>(begin),
                                                static_cast<std::size_t>(end - begin)));
          begin = end;
        }
        return begin / entry_bytes_;
      });
}

std::int64_t EntryBuckets::bucket_of(std::int64_t row) const {
  return bucket_of_[static_cast<std::size_t>(row)];
}

BucketRows EntryBuckets::rows(std::int64_t bucket) const {
  const std::vector<std::byte> bytes = buckets_->copy(bucket);
  BucketRows out;
  out.first_row = first_rows_[static_cast<std::size_t>(bucket)];
  const std::int64_t end_row = first_rows_[static_cast<std::size_t>(bucket) + 1];
  out.offsets.push_back(0);
  for (std::int64_t row = out.first_row; row < end_row; ++row)
    out.offsets.push_back(out.offsets.back() + counts_[static_cast<std::size_t>(row)]);
  const auto n = static_cast<std::size_t>(out.offsets.back());
  const auto require_counted = [&](bool as_counted) {
    if (!as_counted)
      throw_error(
          ErrorKind::kCorruptData, store_.info().path,
          "was changed while it was read: cells {} to {} hold other numbers of entries than "
          "were counted",
          out.first_row, end_row - 1);
  };
  require_counted(bytes.size() == n * static_cast<std::size_t>(entry_bytes_));
  out.columns.reset(n);
  out.values.reset(n * dtype_bytes(store_.info().value_dtype));
  std::vector<std::int64_t> next(out.offsets.begin(), out.offsets.end() - 1);
  with_entry(store_.info().n_cols, store_.info().value_dtype, [&](auto zero) {
    using Entry = decltype(zero);
    const auto* entries = reinterpret_cast<const Entry*>(bytes.data());
    for (std::size_t i = 0; i < n; ++i) {
      const Entry entry = entries[i];
      // Of as many as were counted in all, one row may have more.
      require_counted(next[entry.row] < out.offsets[std::size_t{entry.row} + 1]);
      const auto place = static_cast<std::size_t>(next[entry.row]++);
      out.columns.data()[place] = static_cast<std::int32_t>(entry.column);
      const auto value = entry.value;
      std::memcpy(out.values.data() + place * sizeof value, &value, sizeof value);
    }
  });
  return out;
}

}  // namespace cellfeed::convert
