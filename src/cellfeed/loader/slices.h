// Slices of a batch: how its rows are cut for the threads. Thread-safe: pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cellfeed/loader/rows_by_store.h"

namespace cellfeed::loader {

// Rows a thread takes at a time: enough to hide the cost of handing them out, few enough to share a
// batch evenly.
inline constexpr std::int64_t kSliceRows = 64;

// What one thread decodes at a time of one matrix of a window.
struct Slice {
  std::size_t matrix = 0;
  std::size_t number = 0;  // of the batch's
  std::size_t begin = 0;   // of its pieces
  std::size_t end = 0;
};

// Both append the pieces of one batch, cut where slices end, and its slices of them.

// Rows of one store stay together, so that few calls decode them.
void cut_by_store(std::size_t matrix, std::span<const RowsByStore::Piece> batch,
                  std::vector<RowsByStore::Piece>& pieces, std::vector<Slice>& slices);
// A slice is the rows at positions [kSliceRows * number, kSliceRows * (number + 1)) of the batch,
// of whatever stores. positions: of all rows.
void cut_by_position(std::size_t matrix, std::span<const RowsByStore::Piece> batch,
                     std::span<const std::int64_t> positions,
                     std::vector<RowsByStore::Piece>& pieces, std::vector<Slice>& slices);

}  // namespace cellfeed::loader
