#include "cellfeed/convert/entry_buckets.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "cellfeed/base/dtype.h"
#include "cellfeed/base/error.h"
#include "cellfeed/convert/ordered_pipeline.h"

namespace cellfeed::convert {
namespace {

using format::Entries;
using format::EntryParts;

// So that a row's place in its bucket takes two bytes.
constexpr std::int64_t kMaxRows = std::int64_t{1} << 16;
constexpr std::int64_t kMaxBuckets = std::int64_t{1} << 15;
constexpr std::int64_t kMinBucketBytes = 1 << 20;
// Sorting works best within the processor's caches.
constexpr std::int64_t kMaxBucketBytes = 8 << 20;

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

// Shows pieces as the cells they would be, were all alike.
class CellMeter {
 public:
  CellMeter(const TransposeOptions& options, std::string_view phase,
            const format::EntryStore& store)
      : meter_(options.progress, phase, store.info().n_rows),
        n_rows_(store.info().n_rows),
        n_pieces_(store.n_pieces()) {}
  void advance() {
    const auto before = cells();
    ++done_;
    meter_.advance(cells() - before);
  }

 private:
  std::int64_t cells() const {
    return static_cast<std::int64_t>(static_cast<double>(n_rows_) * static_cast<double>(done_) /
                                     static_cast<double>(n_pieces_));
  }
  ProgressMeter meter_;
  std::int64_t n_rows_;
  std::int64_t n_pieces_;
  std::int64_t done_ = 0;
};

// Gives back the pages of a file that is passed over once.
class PassedEntries {
 public:
  PassedEntries(const format::EntryStore& store, std::int64_t limit_bytes)
      : store_(store), limit_bytes_(limit_bytes) {}
  void passed(std::int64_t n_entries) {
    bytes_ += n_entries * static_cast<std::int64_t>(sizeof(std::int64_t) +
                                                    dtype_bytes(store_.info().value_dtype));
    if (bytes_ < limit_bytes_) return;
    store_.release_pages();
    bytes_ = 0;
  }

 private:
  const format::EntryStore& store_;
  std::int64_t limit_bytes_;
  std::int64_t bytes_ = 0;
};

}  // namespace

EntryBuckets::EntryBuckets(const format::EntryStore& store, exec::ThreadPool& pool,
                           const TransposeOptions& options)
    : store_(store),
      entry_bytes_(with_entry(store.info().n_cols, store.info().value_dtype,
                              [](auto entry) { return static_cast<std::int64_t>(sizeof entry); })) {
  count_entries(pool, options);
  cut_rows(options.memory_bytes);
  buckets_.emplace(options.dir, std::max<std::int64_t>(1, n_buckets()), options.memory_bytes / 2,
                   "gathering rows");
  scatter_entries(pool, options);
}

void EntryBuckets::count_entries(exec::ThreadPool& pool, const TransposeOptions& options) {
  counts_.resize(static_cast<std::size_t>(store_.info().n_rows));
  CellMeter meter(options, "counting what cells hold", store_);
  PassedEntries pages(store_, options.memory_bytes / 2);
  run_in_order<Entries>(
      pool, store_.n_pieces(), {options.memory_bytes / 2, 64},
      [&](std::int64_t) { return store_.piece_bytes(); },
      [&](std::int64_t piece) {
        Entries entries;
        store_.read_piece(piece, EntryParts::kRows, entries);
        return entries;
      },
      [&](std::int64_t, Entries&& entries) {
        for (std::int64_t i = 0; i < entries.n; ++i) ++counts_[entries.rows.data()[i]];
        pages.passed(entries.n);
        meter.advance();
      },
      options.stop);
  for (std::size_t row = 0; row < counts_.size(); ++row)
    if (counts_[row] > std::uint32_t{std::numeric_limits<std::int32_t>::max()})
      throw_error(ErrorKind::kCorruptData, store_.info().path,
                  "a row of '{}' has more than 2^31-1 entries: row {}, entries {}",
                  store_.info().layer, row, counts_[row]);
}

void EntryBuckets::cut_rows(std::int64_t memory_bytes) {
  const std::int64_t n_rows = store_.info().n_rows;
  const std::int64_t wanted =
      std::clamp(memory_bytes / 16, kMinBucketBytes, kMaxBucketBytes) / entry_bytes_;
  const std::int64_t most = std::max(wanted, store_.n_entries() / (kMaxBuckets / 2));
  const std::int64_t most_rows = std::min(kMaxRows, std::max<std::int64_t>(1, n_rows));
  bucket_of_.resize(static_cast<std::size_t>(n_rows));
  std::int64_t held = 0;
  for (std::int64_t row = 0; row < n_rows; ++row) {
    const std::int64_t count = counts_[static_cast<std::size_t>(row)];
    if (row == 0 || held + count > most || row - first_rows_.back() == most_rows) {
      first_rows_.push_back(row);
      held = 0;
    }
    held += count;
    bucket_of_[static_cast<std::size_t>(row)] =
        static_cast<std::uint16_t>(std::ssize(first_rows_) - 1);
  }
  first_rows_.push_back(n_rows);
  if (n_buckets() > std::int64_t{1} << 16)
    throw_error(ErrorKind::kUnsupported, store_.info().path,
                "too many rows to be transposed ({}): {}", store_.info().layer, n_rows);
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
  CellMeter meter(options, "gathering rows", store_);
  PassedEntries pages(store_, options.memory_bytes / 2);
  run_in_order<ScatteredPiece>(
      pool, store_.n_pieces(), {options.memory_bytes / 2, 64},
      [&](std::int64_t) { return 2 * store_.piece_bytes(); },
      [&](std::int64_t piece) { return scatter_piece(piece); },
      [&](std::int64_t, ScatteredPiece&& piece) {
        std::int64_t begin = 0;
        for (std::int64_t bucket = 0; bucket < n_buckets(); ++bucket) {
          const std::int64_t end = piece.ends[static_cast<std::size_t>(bucket)];
          if (end == begin) continue;
          buckets_->append(bucket, std::span(piece.bytes)
                                       .subspan(static_cast<std::size_t>(begin),
                                                static_cast<std::size_t>(end - begin)));
          begin = end;
        }
        pages.passed(begin / entry_bytes_);
        meter.advance();
      },
      options.stop);
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
