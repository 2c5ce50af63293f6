#include "cellfeed/loader/slices.h"

#include <algorithm>

namespace cellfeed::loader {
namespace {

using Piece = RowsByStore::Piece;

// Positions rise within a piece.
template <typename Fn>
void for_each_cut(std::span<const Piece> batch, std::span<const std::int64_t> positions,
                  const Fn& fn) {
  for (const Piece& piece : batch)
    for (std::int64_t begin = piece.begin; begin < piece.end;) {
      const std::int64_t slice = positions[begin] / kSliceRows;
      std::int64_t end = begin + 1;
      while (end < piece.end && positions[end] / kSliceRows == slice) ++end;
      fn(static_cast<std::size_t>(slice), Piece{piece.part, begin, end});
      begin = end;
    }
}

}  // namespace

void cut_by_store(std::size_t matrix, std::span<const Piece> batch, std::vector<Piece>& pieces,
                  std::vector<Slice>& slices) {
  std::size_t number = 0;
  std::int64_t rows = kSliceRows;
  for (const Piece& piece : batch)
    for (std::int64_t begin = piece.begin; begin < piece.end;) {
      if (rows >= kSliceRows) {
        slices.push_back({matrix, number++, pieces.size(), pieces.size()});
        rows = 0;
      }
      const std::int64_t end = std::min(piece.end, begin + kSliceRows - rows);
      pieces.push_back({piece.part, begin, end});
      slices.back().end = pieces.size();
      rows += end - begin;
      begin = end;
    }
}

void cut_by_position(std::size_t matrix, std::span<const Piece> batch,
                     std::span<const std::int64_t> positions, std::vector<Piece>& pieces,
                     std::vector<Slice>& slices) {
  const std::size_t first = slices.size();
  std::int64_t n_rows = 0;
  for (const Piece& piece : batch) n_rows += piece.end - piece.begin;
  for (std::size_t n = 0; static_cast<std::int64_t>(n) * kSliceRows < n_rows; ++n)
    slices.push_back({matrix, n, 0, 0});
  for_each_cut(batch, positions,
               [&](std::size_t slice, const Piece&) { ++slices[first + slice].end; });
  std::size_t total = pieces.size();
  for (std::size_t s = first; s < slices.size(); ++s) {
    const std::size_t n = slices[s].end;
    slices[s].begin = slices[s].end = total;
    total += n;
  }
  pieces.resize(total);
  for_each_cut(batch, positions, [&](std::size_t slice, const Piece& cut) {
    pieces[slices[first + slice].end++] = cut;
  });
}

}  // namespace cellfeed::loader
