// Window: some batches whose rows are read together, so that neighbours coalesce and each
// compressed chunk is inflated once. Made by the loader's driver; then decoded by any thread, slice
// by slice. Thread-safe after construction: slices write disjoint parts.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cellfeed/collection/collection.h"
#include "cellfeed/exec/byte_budget.h"
#include "cellfeed/loader/counters.h"
#include "cellfeed/loader/row_pipeline.h"
#include "cellfeed/matrix/batch.h"
#include "cellfeed/sampling/plan.h"

namespace cellfeed::loader {

// The rows of one store in one window, in the order of their batches.
struct StoreRequest {
  std::int64_t store = 0;
  std::int64_t last_batch = -1;  // the newest batch with rows here
  std::vector<std::int64_t> rows;
  std::vector<std::int64_t> position;  // in the row's batch
  std::vector<std::int64_t> sizes;     // upper bounds, from FetchedRows
  std::vector<std::int64_t> place;     // first entry in the batch's buffers
  std::vector<std::int32_t> counts;    // entries really there
  std::unique_ptr<collection::FetchedRows> fetched;
};

// Consecutive rows of one request that belong to one batch.
struct Piece {
  std::int32_t request = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// What one thread decodes at a time: pieces [begin, end) of a batch.
struct Slice {
  std::size_t begin = 0;
  std::size_t end = 0;
};

struct WindowBatch {
  sampling::BatchPlan plan;
  std::vector<collection::RowPlace> places;  // of each row
  std::vector<Piece> pieces;
  std::vector<Slice> slices;
  std::int64_t max_nnz = 0;  // the sum of the sizes
  bool past_caches = false;  // its rows are not read again soon
};

class Window {
 public:
  Window(const collection::Collection& collection, std::vector<sampling::BatchPlan> plans);

  // Memory that reading these rows will hold.
  std::int64_t plan_fetch_bytes() const;
  // Memory of the lists of rows and of where they go.
  std::int64_t list_bytes() const;
  // Begins to read all stores, and to inflate; reads may be under way when this returns.
  void fetch(const collection::ParallelFor& parallel, Counters& counters);
  // Returns when every byte is there. Throws what reading threw, as decoding then does.
  void wait(Counters& counters) const;
  std::int64_t bytes_used() const;  // as stored. REQUIRES: fetched
  std::int64_t bytes_held() const;  // in memory. REQUIRES: fetched

  std::size_t n_batches() const { return batches_.size(); }
  WindowBatch& batch(std::size_t b) { return batches_[b]; }
  const WindowBatch& batch(std::size_t b) const { return batches_[b]; }
  // Sets where each row of batch b goes; indptr gets the upper bounds. REQUIRES: fetched.
  void place_rows(std::size_t b, std::span<std::int64_t> indptr);
  // Decodes one slice of batch b into out.x, rows run through the pipeline.
  void decode_slice(std::size_t b, const Slice& slice, const RowPipeline& pipeline, Casting casting,
                    matrix::Batch& out, Counters& counters);
  // Closes gaps that shortened rows left, and completes indptr.
  void compact(std::size_t b, matrix::CsrBlock& block) const;

  exec::ByteBudget::Lease lease;

 private:
  void add_batch(sampling::BatchPlan plan, std::vector<std::int32_t>& request_of_store);
  void decode_csr(StoreRequest& request, std::int64_t begin, std::int64_t end, std::size_t b,
                  const RowPipeline& pipeline, Casting casting, matrix::CsrBlock& block,
                  Counters& counters);
  void decode_dense(StoreRequest& request, std::int64_t begin, std::int64_t end, std::size_t b,
                    const RowPipeline& pipeline, Casting casting, matrix::DenseBlock& block,
                    Counters& counters);

  const collection::Collection& collection_;
  std::vector<StoreRequest> requests_;
  std::vector<WindowBatch> batches_;
};

}  // namespace cellfeed::loader
