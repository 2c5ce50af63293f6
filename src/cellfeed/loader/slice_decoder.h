// Slices of a batch: how its rows are cut for the threads, and decoded into it.
// Thread-safe: slices of one batch may be decoded at once, and write disjoint parts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cellfeed/collection/collection.h"
#include "cellfeed/collection/moved_rows.h"
#include "cellfeed/loader/batch_sink.h"
#include "cellfeed/loader/counters.h"
#include "cellfeed/loader/row_pipeline.h"
#include "cellfeed/loader/rows_by_store.h"
#include "cellfeed/matrix/batch.h"

namespace cellfeed::loader {

// Rows a thread takes at a time: enough to hide the cost of handing them out, few enough to share a
// batch evenly.
inline constexpr std::int64_t kSliceRows = 64;

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
  std::int64_t* place = nullptr;   // in what they are decoded to, where the sink did not set it
  std::int32_t* counts = nullptr;  // set here
  bool past_caches = false;
};

// Decodes the rows of one slice into the block of a sink, which asks for them step by step.
class SliceDecoder {
 public:
  using Piece = RowsByStore::Piece;
  // REQUIRES: rows are fetched and sized. Lifetime: what it is given outlives it.
  SliceDecoder(const SliceRows& rows, const RowPipeline& pipeline, Casting casting);
  void run(const BatchSink& sink, matrix::Block& block, Counters& counters);

  // ---- for sinks

  const sampling::BatchPlan& plan() const { return rows_.plan; }
  // Rows reach the batch as they are decoded.
  bool is_identity(const Piece& step) const { return pipeline_.is_identity(part(step).store); }
  // Rows are as decode_moved leaves them.
  bool moves_in_order(const Piece& step) const {
    return pipeline_.moves_in_order(part(step).store) && moved(step) != nullptr;
  }
  // Rows are stored dense, and at most their columns change.
  bool stays_dense(const Piece& step) const {
    return pipeline_.only_moves_columns() && fetched(step).is_dense();
  }
  // Of entries that are scattered: increasing where that costs nothing.
  transform::EntryOrder order_for_scatter(const Piece& step) const {
    return pipeline_.keeps_order(part(step).store) ? transform::EntryOrder::kIncreasing
                                                   : transform::EntryOrder::kAny;
  }
  // Decodes a step to the places of its rows. is_final: nothing is done to them afterwards.
  void decode(const Piece& step, std::int32_t* indices, void* values, DType dtype, bool is_final);
  // As decode, final; columns go to their places in the batch meanwhile. REQUIRES: moves_in_order.
  void decode_moved(const Piece& step, std::int32_t* indices, void* values, DType dtype);
  // Runs decoded rows through the pipeline; then calls fn(position in the batch, row) for each.
  template <typename Fn>
  void change_rows(const Piece& step, std::int32_t* indices, void* values, DType dtype,
                   transform::EntryOrder order, const Fn& fn) {
    const std::int64_t decoded = now_ns();
    const auto width = static_cast<std::int64_t>(dtype_bytes(dtype));
    for (std::int64_t i = step.begin; i < step.end; ++i)
      fn(rows_.positions[i],
         change_row(step, i, indices + rows_.place[i],
                    static_cast<std::byte*>(values) + rows_.place[i] * width, dtype, order));
    pipeline_.require_intact(part(step).store);
    transform_ns_ += now_ns() - decoded;
  }
  // Both, in memory of this thread's own.
  template <typename Fn>
  void decode_apart(const Piece& step, DType dtype, transform::EntryOrder order, const Fn& fn) {
    const Scratch scratch = make_scratch(step, dtype);
    decode(step, scratch.indices, scratch.values, dtype, false);
    change_rows(step, scratch.indices, scratch.values, dtype, order, fn);
  }
  // Rows of the batch are not read again soon.
  bool goes_past_caches() const { return rows_.past_caches; }
  // Moves a step that stays dense to its rows of a matrix of n_cols.
  void move_dense(const Piece& step, void* values, DType dtype, std::int64_t n_cols);

 private:
  struct Scratch {
    std::int32_t* indices;
    std::byte* values;
  };
  const collection::FetchedRows& fetched(const Piece& step) const {
    return *rows_.fetched[static_cast<std::size_t>(step.part)];
  }
  const collection::MovedRows* moved(const Piece& step) const {
    return dynamic_cast<const collection::MovedRows*>(&fetched(step));
  }
  collection::CsrSink sink_of(const Piece& step, std::int32_t* indices, void* values, DType dtype,
                              bool is_final) const;
  const RowsByStore::Part& part(const Piece& step) const {
    return rows_.parts[static_cast<std::size_t>(step.part)];
  }
  void cut_into_steps(const BatchSink& sink);
  std::int64_t end_of_step(const Piece& piece, std::int64_t begin) const;
  void prefetch(std::size_t step);
  Scratch make_scratch(const Piece& step, DType dtype);
  transform::Row change_row(const Piece& step, std::int64_t i, std::int32_t* indices, void* values,
                            DType dtype, transform::EntryOrder order);

  const SliceRows& rows_;
  const RowPipeline& pipeline_;
  const Casting casting_;
  std::array<Piece, kSliceRows> steps_;  // rows of one store that are decoded by one call
  std::size_t n_steps_ = 0;
  std::size_t next_asked_ = 0;   // the first step that was not prefetched
  std::int64_t rows_asked_ = 0;  // of steps that were, and are not begun
  const std::int64_t start_ns_ = now_ns();
  std::int64_t transform_ns_ = 0;
};

}  // namespace cellfeed::loader
