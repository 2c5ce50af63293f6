#include "cellfeed/format/stored_array.h"

#include <array>
#include <cstring>

#include "cellfeed/base/error.h"
#include "cellfeed/chunked/fetched_runs.h"

namespace cellfeed::format {

void StoredArray::require_integers() const {
  if (!is_integer(dtype()))
    throw_error(ErrorKind::kCorruptData, path(), "must hold integers: '{}' holds {}", name(),
                dtype_name(dtype()));
}

void read_elements(const chunked::ChunkedArray& array, const chunked::ChunkCache& cache,
                   std::span<const chunked::EntryRange> ranges, const io::ReadAhead* ahead,
                   std::span<std::byte> out) {
  chunked::FetchedRuns runs(array, cache, ranges);
  const std::array<chunked::FetchedRuns*, 1> all{&runs};
  chunked::InflatingTasks tasks(all, ahead);
  tasks.wait();
  for (std::int64_t task = 0; task < tasks.size(); ++task) tasks.run(task);
  std::vector<chunked::RowPiece> pieces;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    pieces.clear();
    runs.append_pieces(i, pieces);
    for (const chunked::RowPiece& piece : pieces) {
      const auto n = static_cast<std::size_t>(piece.length * array.element_bytes());
      std::memcpy(out.data(), piece.data, n);
      out = out.subspan(n);
    }
  }
}

std::vector<std::int64_t> read_integers(const StoredArray& array, const chunked::ChunkCache& cache,
                                        std::span<const chunked::EntryRange> ranges,
                                        const io::ReadAhead* ahead) {
  std::int64_t n = 0;
  for (const chunked::EntryRange& range : ranges) n += range.end - range.begin;
  std::vector<std::byte> stored(static_cast<std::size_t>(n * array.element_bytes()));
  read_elements(array, cache, ranges, ahead, stored);
  return array.number().to_integers(stored);
}

}  // namespace cellfeed::format
