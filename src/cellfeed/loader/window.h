// Window: some batches whose rows are read together, so that neighbours coalesce and each
// compressed chunk is inflated once. Read by one thread, step by step; then decoded by any thread,
// slice by slice. Thread-safe once it is read: slices write disjoint parts.
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "cellfeed/collection/collection.h"
#include "cellfeed/exec/byte_budget.h"
#include "cellfeed/loader/counters.h"
#include "cellfeed/loader/matrix_window.h"
#include "cellfeed/loader/rows_by_store.h"
#include "cellfeed/matrix/batch.h"

namespace cellfeed::loader {

// Batches that are read together, and what is known of that before it begins.
struct PlannedWindow {
  std::vector<LocatedBatch> batches;
  PlannedRows reads;
};
PlannedWindow plan_window(const collection::Collection& cells, std::vector<LocatedBatch> batches);

struct WindowBatch {
  sampling::BatchPlan plan;
  std::vector<collection::RowPlace> places;  // of each row
  std::vector<Slice> slices;                 // of all matrices
  bool past_caches = false;                  // its rows are not read again soon
};

class Window {
 public:
  // matrices: all of the collection. Lifetime: they outlive it.
  Window(std::span<const MatrixOutput> matrices, PlannedWindow planned);

  // What reading these rows takes.
  const collection::ReadPlan& plan() const { return plan_; }
  // Memory of the lists of rows and of where they go.
  std::int64_t list_bytes() const;

  // The steps of reading, in this order; each throws what its stores throw.
  // Begins to read from all stores, and waits for none.
  void begin(const std::stop_token& stop, Counters& counters);
  // Returns when every byte is there.
  void wait(Counters& counters);
  // Inflates and counts, the tasks of all stores together, and sizes every row.
  void finish(const collection::ParallelFor& parallel, Counters& counters);

  std::int64_t bytes_used() const { return bytes_used_; }  // as stored. REQUIRES: begun
  std::int64_t bytes_held() const;                         // in memory. REQUIRES: begun

  std::size_t n_batches() const { return batches_.size(); }
  WindowBatch& batch(std::size_t b) { return batches_[b]; }
  const WindowBatch& batch(std::size_t b) const { return batches_[b]; }
  // The matrices in their order. REQUIRES, as below: finished.
  std::vector<MatrixWindow>& matrices() { return matrices_; }
  const std::vector<MatrixWindow>& matrices() const { return matrices_; }
  // Decodes one slice of batch b into the block of its matrix.
  void decode_slice(std::size_t b, const Slice& slice, Casting casting, matrix::Batch& out,
                    Counters& counters);

  exec::ByteBudget::Lease lease;

 private:
  std::vector<WindowBatch> batches_;
  std::vector<MatrixWindow> matrices_;
  collection::ReadPlan plan_;
  std::int64_t bytes_used_ = 0;
};

}  // namespace cellfeed::loader
