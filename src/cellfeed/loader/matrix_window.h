// MatrixWindow: what a window reads of one matrix: the rows of its batches, from all stores that
// have some. Its steps are the window's. Thread-safe once it is read: slices write disjoint parts.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

#include "cellfeed/loader/counters.h"
#include "cellfeed/loader/matrix_output.h"
#include "cellfeed/loader/rows_by_store.h"
#include "cellfeed/loader/slice_decoder.h"
#include "cellfeed/matrix/batch.h"

namespace cellfeed::loader {

class MatrixWindow {
 public:
  // Lifetime: matrix outlives this.
  MatrixWindow(const MatrixOutput& matrix, std::shared_ptr<const RowsByStore> rows)
      : matrix_(matrix), rows_(std::move(rows)) {}
  const MatrixOutput& matrix() const { return matrix_; }
  // Memory of the lists of rows and of where they go.
  std::int64_t list_bytes() const;
  // Appends the slices of the next batch: number is that of this matrix. To be called for each
  // batch, in their order.
  void cut(std::size_t number, std::size_t batch, std::vector<Slice>& slices);

  // ---- the steps of reading, in this order

  void begin(const std::stop_token& stop);
  void wait();
  std::int64_t n_tasks() const;
  void run(std::int64_t task);
  void size_rows();
  std::int64_t bytes_read() const;
  std::int64_t bytes_used() const;
  std::int64_t bytes_held() const;

  // ---- REQUIRES: rows are sized

  // The sum of the sizes of a batch.
  std::int64_t max_nnz(std::size_t batch) const { return max_nnz_[batch]; }
  // The largest size of a row of a batch.
  std::int64_t max_row_size(std::size_t batch) const;
  // Sets where each row of a batch goes; indptr gets the upper bounds.
  void place_rows(std::size_t batch, std::span<std::int64_t> indptr);
  // Decodes one slice of a batch, rows run through the pipeline.
  void decode_slice(std::size_t batch, const sampling::BatchPlan& plan, const Slice& slice,
                    Casting casting, bool past_caches, matrix::Block& out, Counters& counters);
  // Throws where a file changed that rows of a batch are of. To be called once they are decoded.
  void require_intact(std::size_t batch) const;
  // Closes gaps that shortened rows left, and completes indptr.
  void compact(std::size_t batch, matrix::CsrBlock& block) const;
  SliceOrder& order(std::size_t batch) { return *orders_[batch]; }

 private:
  const MatrixOutput& matrix_;
  std::shared_ptr<const RowsByStore> rows_;
  std::vector<RowsByStore::Piece> pieces_;  // those of rows_, cut where slices end
  std::vector<std::unique_ptr<collection::FetchedRows>> fetched_;  // of each part
  std::vector<std::int64_t> task_ends_;                            // of each part
  // Of each row, in the order of rows_.
  std::vector<std::int64_t> sizes_;   // upper bounds, from FetchedRows
  std::vector<std::int64_t> place_;   // first entry in the batch's buffers
  std::vector<std::int32_t> counts_;  // entries really there
  // Of each batch.
  std::vector<std::unique_ptr<SliceOrder>> orders_;
  std::vector<std::int64_t> max_nnz_;
};

}  // namespace cellfeed::loader
