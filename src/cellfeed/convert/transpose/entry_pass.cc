#include "cellfeed/convert/transpose/entry_pass.h"

#include <algorithm>
#include <limits>

#include "cellfeed/base/error.h"

namespace cellfeed::convert {
namespace {

// So that a row's place in its bucket takes two bytes.
constexpr std::int64_t kMaxRows = std::int64_t{1} << 16;
constexpr std::int64_t kMinBucketBytes = 1 << 20;
// Sorting works best within the processor's caches.
constexpr std::int64_t kMaxBucketBytes = 8 << 20;

}  // namespace

std::int64_t entries_of_bucket(std::int64_t memory_bytes, std::int64_t entry_bytes) {
  return std::clamp(memory_bytes / 16, kMinBucketBytes, kMaxBucketBytes) / entry_bytes;
}

std::vector<std::int64_t> cut_rows(std::span<const std::uint32_t> counts,
                                   std::int64_t most_entries) {
  std::vector<std::int64_t> first_rows;
  std::int64_t held = 0;
  for (std::int64_t row = 0; row < std::ssize(counts); ++row) {
    const std::int64_t count = counts[static_cast<std::size_t>(row)];
    if (row == 0 || held + count > most_entries || row - first_rows.back() == kMaxRows) {
      first_rows.push_back(row);
      held = 0;
    }
    held += count;
  }
  first_rows.push_back(std::ssize(counts));
  return first_rows;
}

void require_row_size(const format::EntryStore& store, std::int64_t row, std::int64_t n_entries) {
  if (n_entries > std::numeric_limits<std::int32_t>::max())
    throw_error(ErrorKind::kCorruptData, store.info().path,
                "a row of '{}' has more than 2^31-1 entries: row {}, entries {}",
                store.info().layer, row, n_entries);
}

EntryPass::EntryPass(const format::EntryStore& store, const TransposeOptions& options,
                     std::string_view phase)
    : store_(store),
      meter_(options.progress, phase, store.info().n_rows),
      limit_bytes_(options.memory_bytes / 2) {}

std::int64_t EntryPass::cells() const {
  return static_cast<std::int64_t>(static_cast<double>(store_.info().n_rows) *
                                   static_cast<double>(done_) /
                                   static_cast<double>(store_.n_pieces()));
}

void EntryPass::passed(std::int64_t n_entries) {
  const auto before = cells();
  ++done_;
  meter_.advance(cells() - before);
  bytes_ += n_entries * static_cast<std::int64_t>(sizeof(std::int64_t) +
                                                  dtype_bytes(store_.info().value_dtype));
  if (bytes_ < limit_bytes_) return;
  store_.release_pages();
  bytes_ = 0;
}

}  // namespace cellfeed::convert
