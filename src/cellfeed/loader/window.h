// Window: some batches whose rows are read together, so that neighbours coalesce and each
// compressed chunk is inflated once. Read by one thread, step by step; then decoded by any thread,
// slice by slice. Thread-safe once it is read: slices write disjoint parts.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cellfeed/collection/collection.h"
#include "cellfeed/exec/byte_budget.h"
#include "cellfeed/loader/counters.h"
#include "cellfeed/loader/row_pipeline.h"
#include "cellfeed/loader/rows_by_store.h"
#include "cellfeed/loader/slice_decoder.h"
#include "cellfeed/matrix/batch.h"

namespace cellfeed::loader {

struct WindowBatch {
  sampling::BatchPlan plan;
  std::vector<collection::RowPlace> places;  // of each row
  std::vector<Slice> slices;
  std::int64_t max_nnz = 0;  // the sum of the sizes
  bool past_caches = false;  // its rows are not read again soon
};

class Window {
 public:
  // Lifetime: the collection outlives it.
  Window(const collection::Collection& collection, std::vector<LocatedBatch> batches);

  // What reading these rows takes.
  const collection::ReadPlan& plan() const { return plan_; }
  // Memory of the lists of rows and of where they go.
  std::int64_t list_bytes() const;

  // The steps of reading, in this order; each throws what its stores throw.
  // Begins to read from all stores, and waits for none.
  void begin(const collection::ReadContext& context, Counters& counters);
  // Returns when every byte is there.
  void wait(Counters& counters);
  // Inflates and counts, the tasks of all stores together, and sizes every row.
  void finish(const collection::ParallelFor& parallel, Counters& counters);

  std::int64_t bytes_used() const { return bytes_used_; }  // as stored. REQUIRES: begun
  std::int64_t bytes_held() const;                         // in memory. REQUIRES: begun

  std::size_t n_batches() const { return batches_.size(); }
  WindowBatch& batch(std::size_t b) { return batches_[b]; }
  const WindowBatch& batch(std::size_t b) const { return batches_[b]; }
  // REQUIRES, as all below: finished.
  // Sets where each row of batch b goes; indptr gets the upper bounds.
  void place_rows(std::size_t b, std::span<std::int64_t> indptr);
  // Decodes one slice of batch b into out.x, rows run through the pipeline.
  void decode_slice(std::size_t b, const Slice& slice, const RowPipeline& pipeline, Casting casting,
                    matrix::Batch& out, Counters& counters);
  // Closes gaps that shortened rows left, and completes indptr.
  void compact(std::size_t b, matrix::CsrBlock& block) const;

  exec::ByteBudget::Lease lease;

 private:
  using Part = RowsByStore::Part;
  using Piece = RowsByStore::Piece;
  void size_rows();

  const collection::Collection& collection_;
  std::vector<WindowBatch> batches_;
  RowsByStore rows_;
  std::vector<Piece> pieces_;  // those of rows_, cut where slices end
  collection::ReadPlan plan_;
  std::vector<std::unique_ptr<collection::FetchedRows>> fetched_;  // of each part
  std::int64_t bytes_used_ = 0;
  // Of each row, in the order of rows_.
  std::vector<std::int64_t> sizes_;   // upper bounds, from FetchedRows
  std::vector<std::int64_t> place_;   // first entry in the batch's buffers
  std::vector<std::int32_t> counts_;  // entries really there
};

}  // namespace cellfeed::loader
