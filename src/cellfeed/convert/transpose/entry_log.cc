#include "cellfeed/convert/transpose/entry_log.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <span>
#include <utility>

#include "cellfeed/base/dtype.h"

namespace cellfeed::convert {
namespace {

using format::Entries;
using format::EntryParts;

constexpr std::int64_t kColumns = 0, kValues = 1, kEntryParts = 2;
constexpr auto kColumnBytes = static_cast<std::int64_t>(sizeof(std::int32_t));

// Ends a pass.
struct NotAscending final : std::exception {};

bool ascends(const Entries& entries) {
  return std::is_sorted(entries.rows.data(), entries.rows.data() + entries.n);
}

bool first_rows_ascend(const format::EntryStore& store) {
  if (store.n_pieces() == 0) return true;
  Entries entries;
  store.read_piece(0, EntryParts::kRows, entries);
  return ascends(entries);
}

// Entries whose memory is used again. Thread-safe.
class FreeEntries {
 public:
  Entries take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return {};
    Entries entries = std::move(free_.back());
    free_.pop_back();
    return entries;
  }
  void give(Entries&& entries) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(entries));
  }

 private:
  std::mutex mutex_;
  std::vector<Entries> free_;  // guarded by mutex_
};

}  // namespace

// Entries that follow one another in one row.
struct EntryLog::Run {
  std::uint32_t row = 0;
  std::int64_t n = 0;
};

struct EntryLog::Piece {
  Entries entries;
  std::vector<Run> runs;

  void find_runs() {
    const std::uint32_t* rows = entries.rows.data();
    for (std::int64_t begin = 0, end; begin < entries.n; begin = end) {
      for (end = begin + 1; end < entries.n && rows[end] == rows[begin];) ++end;
      runs.push_back({rows[begin], end - begin});
    }
  }
};

EntryLog::EntryLog(const format::EntryStore& store, const TransposeOptions& options)
    : store_(store),
      value_bytes_(static_cast<std::int64_t>(dtype_bytes(store.info().value_dtype))),
      counts_(static_cast<std::size_t>(store.info().n_rows)),
      kept_(options.dir, kEntryParts, options.memory_bytes / 2, "gathering rows") {}

std::unique_ptr<EntryLog> EntryLog::make(const format::EntryStore& store, exec::ThreadPool& pool,
                                         const TransposeOptions& options) {
  if (!first_rows_ascend(store)) return nullptr;
  std::unique_ptr<EntryLog> log(new EntryLog(store, options));
  if (!log->read_all(pool, options)) return nullptr;
  log->place_rows(options.memory_bytes);
  return log;
}

bool EntryLog::read_all(exec::ThreadPool& pool, const TransposeOptions& options) {
  FreeEntries free;
  try {
    pass_over_pieces<Piece>(
        store_, pool, options, "gathering rows", store_.piece_bytes(),
        [&](std::int64_t number) {
          Piece piece{.entries = free.take(), .runs = {}};
          store_.read_piece(number, EntryParts::kAll, piece.entries);
          piece.find_runs();
          return piece;
        },
        [&](Piece&& piece) {
          append(piece);
          const std::int64_t n = piece.entries.n;
          free.give(std::move(piece.entries));
          return n;
        });
  } catch (const NotAscending&) {
    return false;
  }
  return true;
}

void EntryLog::append(const Piece& piece) {
  for (const Run& run : piece.runs) {
    if (run.row < last_row_) throw NotAscending();
    last_row_ = run.row;
    const std::int64_t n = counts_[run.row] + run.n;
    require_row_size(store_, run.row, n);
    counts_[run.row] = static_cast<std::uint32_t>(n);
  }
  const auto n = static_cast<std::size_t>(piece.entries.n);
  kept_.append(kColumns, std::as_bytes(std::span(piece.entries.columns.data(), n)));
  kept_.append(kValues,
               std::span(piece.entries.values.data(), n * static_cast<std::size_t>(value_bytes_)));
}

void EntryLog::place_rows(std::int64_t memory_bytes) {
  first_rows_ = cut_rows(counts_, entries_of_bucket(memory_bytes, kColumnBytes + value_bytes_));
  std::int64_t n = 0, row = 0;
  for (const std::int64_t first : first_rows_) {
    for (; row < first; ++row) n += counts_[static_cast<std::size_t>(row)];
    first_entries_.push_back(n);
  }
}

std::int64_t EntryLog::bucket_of(std::int64_t row) const {
  return std::upper_bound(first_rows_.begin(), first_rows_.end(), row) - first_rows_.begin() - 1;
}

std::int64_t EntryLog::bytes(std::int64_t bucket) const {
  const auto at = static_cast<std::size_t>(bucket);
  return (first_entries_[at + 1] - first_entries_[at]) * (kColumnBytes + value_bytes_);
}

BucketRows EntryLog::rows(std::int64_t bucket) const {
  const auto at = static_cast<std::size_t>(bucket);
  BucketRows out;
  out.first_row = first_rows_[at];
  out.offsets.push_back(0);
  for (std::int64_t row = out.first_row; row < first_rows_[at + 1]; ++row)
    out.offsets.push_back(out.offsets.back() + counts_[static_cast<std::size_t>(row)]);
  const auto n = static_cast<std::size_t>(out.offsets.back());
  out.columns.reset(n);
  out.values.reset(n * static_cast<std::size_t>(value_bytes_));
  const std::int64_t first = first_entries_[at];
  kept_.copy(kColumns, first * kColumnBytes, std::as_writable_bytes(out.columns.span()));
  kept_.copy(kValues, first * value_bytes_, out.values.span());
  return out;
}

}  // namespace cellfeed::convert
