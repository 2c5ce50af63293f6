// The rows of batches where they lie: located one by one, then store by store, each store's in the
// order of the batches. Thread-safe: pure.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cellfeed/collection/collection.h"
#include "cellfeed/sampling/plan.h"

namespace cellfeed::loader {

struct LocatedBatch {
  sampling::BatchPlan plan;
  std::vector<collection::RowPlace> places;  // of each row
};

// Throws kInternal for a row that the collection does not have.
LocatedBatch locate_batch(const collection::Collection& cells, sampling::BatchPlan plan);
std::vector<LocatedBatch> locate_batches(const collection::Collection& cells,
                                         std::vector<sampling::BatchPlan> plans);

struct RowsByStore {
  // Of one store: its part of the lists below.
  struct Part {
    std::int32_t store = 0;
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };
  // Consecutive rows of one part that belong to one batch; part counts from 0.
  struct Piece {
    std::int32_t part = 0;
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };

  RowsByStore(const collection::Collection& cells, std::span<const LocatedBatch> batches);
  std::span<const std::int64_t> rows_of(const Part& part) const {
    return std::span(rows).subspan(static_cast<std::size_t>(part.begin),
                                   static_cast<std::size_t>(part.end - part.begin));
  }
  std::span<const Piece> pieces_of(std::size_t batch) const {
    return std::span(pieces).subspan(first_piece[batch],
                                     first_piece[batch + 1] - first_piece[batch]);
  }

  std::vector<Part> parts;               // of the stores that have any of the rows
  std::vector<std::int64_t> rows;        // numbers in their stores
  std::vector<std::int64_t> positions;   // in their batches
  std::vector<Piece> pieces;             // batch by batch
  std::vector<std::size_t> first_piece;  // of each batch, and the number of pieces
};

// Those of every matrix of a collection, in its order; matrices whose stores are cut alike share
// one.
using RowsOfMatrices = std::vector<std::shared_ptr<const RowsByStore>>;
RowsOfMatrices rows_of_matrices(const collection::Collection& cells,
                                std::span<const LocatedBatch> batches);

// What reading rows takes; a chunk that several batches need is inflated once.
struct Work {
  collection::ReadPlan reads;      // read_ahead_bytes: of the store that asks for most
  std::int64_t rows = 0;           // a row counts once a matrix
  std::int64_t inflated_rows = 0;  // that lie in compressed chunks
  double bytes = 0;  // of those chunks whole, and of the other rows as they are stored
};

struct PlannedRows {
  RowsOfMatrices rows;
  Work work;
};
// Reads no rows.
PlannedRows plan_rows(const collection::Collection& cells, std::span<const LocatedBatch> batches);

}  // namespace cellfeed::loader
