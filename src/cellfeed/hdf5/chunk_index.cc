// ChunkIndex: numbers to coordinates, entries to places inside the source.
#include "cellfeed/hdf5/chunk_index.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/hdf5/chunk_index_kinds.h"

namespace cellfeed::hdf5 {

void ChunkIndex::locate(std::span<const std::uint64_t> numbers,
                        std::span<ChunkPlace> places) const {
  std::fill(places.begin(), places.end(), ChunkPlace{});
  if (layout_.address == kUndefinedAddress || numbers.empty()) return;
  std::vector<std::size_t> order(numbers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // Ascending numbers are ascending coordinates, dimension by dimension.
  if (!std::is_sorted(numbers.begin(), numbers.end()))
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return numbers[a] < numbers[b]; });
  const std::size_t rank = grid_.rank();
  std::vector<std::uint64_t> coordinates(numbers.size() * rank);
  for (std::size_t i = 0; i < order.size(); ++i)
    grid_.coordinates(numbers[order[i]], std::span(coordinates).subspan(i * rank, rank));
  std::vector<Entry> found(numbers.size());
  find(coordinates, found);
  for (std::size_t i = 0; i < order.size(); ++i)
    if (found[i].address != kUndefinedAddress)
      places[order[i]] = checked_place(numbers[order[i]],
                                       std::span(coordinates).subspan(i * rank, rank), found[i]);
}

ChunkPlace ChunkIndex::checked_place(std::uint64_t number,
                                     std::span<const std::uint64_t> coordinates,
                                     const Entry& entry) const {
  const bool is_raw =
      !has_filters_ || (layout_.edge_chunks_are_unfiltered && grid_.is_partial(coordinates));
  if (!file_.holds(entry.address, entry.n_bytes))
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "data lies outside the file (truncated?): chunk {}: address {}, {} bytes, the file "
                "has {}",
                number, entry.address, entry.n_bytes, file_.size());
  const auto offset = static_cast<std::uint64_t>(file_.source_offset(entry.address));
  if (is_raw && entry.n_bytes != layout_.chunk_bytes)
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "a chunk without filters has the wrong size: chunk {}: {} bytes, expected {}, "
                "offset {}",
                number, entry.n_bytes, layout_.chunk_bytes, offset);
  constexpr std::uint32_t kAllFilters = ~std::uint32_t{0};
  return {.is_written = true,
          .offset = offset,
          .n_bytes = entry.n_bytes,
          .skipped = is_raw ? kAllFilters : entry.skipped};
}

std::unique_ptr<ChunkIndex> make_chunk_index(const FileBytes& file, ChunkedLayout layout,
                                             ChunkGrid grid, bool has_filters) {
  const ChunkIndexKind kind = layout.index;
  const auto make = [&](auto& make_kind) {
    return make_kind(file, std::move(layout), std::move(grid), has_filters);
  };
  switch (kind) {
    case ChunkIndexKind::kBtree1:
      return make(make_btree1_index);
    case ChunkIndexKind::kSingleChunk:
      return make(make_single_chunk_index);
    case ChunkIndexKind::kImplicit:
      return make(make_implicit_index);
    case ChunkIndexKind::kFixedArray:
      return make(make_fixed_array_index);
    case ChunkIndexKind::kExtensibleArray:
      return make(make_extensible_array_index);
    case ChunkIndexKind::kBtree2:
      return make(make_btree2_index);
  }
  throw Error(ErrorKind::kInternal, "unknown kind of chunk index", file.path());
}

std::optional<std::uint64_t> linear_number(std::span<const std::uint64_t> coordinates,
                                           std::span<const std::uint64_t> counts) {
  std::uint64_t number = 0;
  for (std::size_t d = 0; d < coordinates.size(); ++d) {
    if (d > 0 && __builtin_mul_overflow(number, counts[d], &number)) return std::nullopt;
    if (__builtin_add_overflow(number, coordinates[d], &number)) return std::nullopt;
  }
  if (number >> 63 != 0) return std::nullopt;
  return number;
}

std::vector<std::uint64_t> linear_numbers(const FileBytes& file,
                                          std::span<const std::uint64_t> coordinates,
                                          std::span<const std::uint64_t> counts) {
  std::vector<std::uint64_t> numbers;
  for (std::size_t at = 0; at < coordinates.size(); at += counts.size()) {
    const auto number = linear_number(coordinates.subspan(at, counts.size()), counts);
    if (!number)
      throw_error(ErrorKind::kCorruptData, file.path(),
                  "a dataset may grow to more chunks than there are numbers: {} along its last "
                  "dimension",
                  counts.back());
    numbers.push_back(*number);
  }
  return numbers;
}

}  // namespace cellfeed::hdf5
