#include "cellfeed/format/row_offsets.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "cellfeed/base/error.h"

namespace cellfeed::format {
namespace {

using chunked::EntryRange;

// Of the memory for inflated chunks: enough for the offsets of rows of 8 entries, whose values and
// indices take the rest.
constexpr std::int64_t kCachePart = 4;

std::vector<chunked::CachedArray> cached(const StoredArray& array) {
  if (array.is_mapped()) return {{}};
  return {{array.n_chunks(), array.chunk_bytes()}};
}

}  // namespace

RowOffsets::RowOffsets(const StoredTree& file, std::string group, std::int64_t n_rows,
                       std::int64_t n_entries)
    : file_(file),
      group_(std::move(group)),
      n_rows_(n_rows),
      n_entries_(n_entries),
      indptr_(file.open_array(group_ + "/indptr", {.rank = 1, .key = 0})),
      cache_(0, cached(*indptr_)) {
  indptr_->require_integers();
  if (indptr_->length() != n_rows_ + 1)
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "indptr of '{}' must have one entry more than rows: {} entries, {} rows", group_,
                indptr_->length(), n_rows_);
  if (indptr_->contiguous() != nullptr) check_ends();
}

std::int64_t RowOffsets::take_cache_bytes(std::int64_t bytes) const {
  if (indptr_->is_mapped()) return bytes;
  const std::int64_t part = bytes / kCachePart;
  const bool fits = indptr_->n_chunks() <= part / indptr_->chunk_bytes();
  const std::int64_t taken = fits ? indptr_->n_chunks() * indptr_->chunk_bytes() : part;
  cache_.set_capacity(taken);
  return bytes - taken;
}

std::vector<EntryRange> RowOffsets::entries_of(std::span<const std::int64_t> rows) const {
  for (const std::int64_t row : rows)
    if (row < 0 || row >= n_rows_)
      throw_error(ErrorKind::kOutOfRange, file_.path(), "row out of range: {}, rows {}", row,
                  n_rows_);
  if (indptr_->contiguous() != nullptr && indptr_->number().is_native()) {
    if (indptr_->dtype() == DType::kI32) return mapped_entries<std::int32_t>(rows);
    if (indptr_->dtype() == DType::kI64) return mapped_entries<std::int64_t>(rows);
  }
  if (!has_checked_ends_.load(std::memory_order_relaxed)) check_ends();
  std::vector<EntryRange> ranges;
  ranges.reserve(rows.size());
  for (const std::int64_t row : rows) ranges.push_back({row, row + 2});
  const std::vector<std::int64_t> offsets = read(ranges);
  for (std::size_t i = 0; i < rows.size(); ++i)
    ranges[i] = checked(rows[i], offsets[2 * i], offsets[2 * i + 1]);
  return ranges;
}

template <typename T>
std::vector<EntryRange> RowOffsets::mapped_entries(std::span<const std::int64_t> rows) const {
  std::vector<EntryRange> ranges;
  ranges.reserve(rows.size());
  for (const std::int64_t row : rows) {
    std::array<T, 2> ends;
    std::memcpy(ends.data(), indptr_->contiguous() + row * static_cast<std::int64_t>(sizeof(T)),
                sizeof ends);
    ranges.push_back(checked(row, ends[0], ends[1]));
  }
  return ranges;
}

std::vector<std::int64_t> RowOffsets::read(std::span<const EntryRange> ranges) const {
  return read_integers(*indptr_, cache_, ranges, file_.ahead());
}

EntryRange RowOffsets::checked(std::int64_t row, std::int64_t begin, std::int64_t end) const {
  if (begin < 0 || begin > end || end > n_entries_) {
    file_.require_unchanged();  // zeros of lost pages are no damage
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "indptr of '{}' must not decrease nor pass the number of entries: row {} goes from "
                "{} to {}, entries {}",
                group_, row, begin, end, n_entries_);
  }
  if (end - begin > std::numeric_limits<std::int32_t>::max())
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "a row of '{}' has more than 2^31-1 entries: row {}, entries {}", group_, row,
                end - begin);
  return {begin, end};
}

void RowOffsets::check_ends() const {
  const std::array<EntryRange, 2> ends{{{0, 1}, {n_rows_, n_rows_ + 1}}};
  const std::vector<std::int64_t> offsets = read(ends);
  if (offsets[0] != 0 || offsets[1] != n_entries_) {
    file_.require_unchanged();
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "indptr of '{}' must start at 0 and end at the number of entries: starts at {}, "
                "ends at {}, entries {}",
                group_, offsets[0], offsets[1], n_entries_);
  }
  has_checked_ends_.store(true, std::memory_order_relaxed);
}

}  // namespace cellfeed::format
