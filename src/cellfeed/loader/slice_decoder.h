// Slices of a batch: how its rows are cut for the threads, and decoded into it.
// Thread-safe: slices of one batch may be decoded at once, and write disjoint parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cellfeed/collection/collection.h"
#include "cellfeed/loader/counters.h"
#include "cellfeed/loader/row_pipeline.h"
#include "cellfeed/loader/rows_by_store.h"
#include "cellfeed/matrix/batch.h"

namespace cellfeed::loader {

// What one thread decodes at a time: pieces [begin, end) of one matrix of a window.
struct Slice {
  std::size_t matrix = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
};

// Appends the pieces of one batch, cut where slices end, and its slices of them.
void cut_into_slices(std::size_t matrix, std::span<const RowsByStore::Piece> batch,
                     std::vector<RowsByStore::Piece>& pieces, std::vector<Slice>& slices);

// A slice's pieces, and the lists of its window that tell where their rows go. Lifetime: a view.
struct SliceRows {
  std::span<const RowsByStore::Piece> pieces;
  std::span<const RowsByStore::Part> parts;
  std::span<const std::unique_ptr<collection::FetchedRows>> fetched;  // of each part
  const sampling::BatchPlan& plan;
  // Of each row of the window.
  const std::int64_t* positions = nullptr;  // in its batch
  const std::int64_t* sizes = nullptr;
  std::int64_t* place = nullptr;   // in the batch's entries; for dense batches set here
  std::int32_t* counts = nullptr;  // set here
  bool past_caches = false;
};

// Decodes the rows into out, through the pipeline. REQUIRES: fetched and sized.
void decode_slice(const SliceRows& rows, const RowPipeline& pipeline, Casting casting,
                  matrix::Block& out, Counters& counters);

}  // namespace cellfeed::loader
