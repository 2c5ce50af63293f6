// SliceDecoder: the rows of a slice on their way into a batch.
// Thread-safe: slices of one batch may be decoded at once, and write disjoint parts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/collection/collection.h"
#include "cellfeed/collection/moved_rows.h"
#include "cellfeed/loader/batch_sink.h"
#include "cellfeed/loader/counters.h"
#include "cellfeed/loader/kept_rows.h"
#include "cellfeed/loader/row_pipeline.h"
#include "cellfeed/loader/rows_by_store.h"
#include "cellfeed/loader/slices.h"
#include "cellfeed/matrix/batch.h"

namespace cellfeed::loader {

// A slice's pieces, and the lists of its window that tell where their rows go. Lifetime: a view.
struct SliceRows {
  std::size_t number = 0;  // of the slice
  std::span<const RowsByStore::Piece> pieces;
  std::span<const RowsByStore::Part> parts;
  std::span<const std::unique_ptr<collection::FetchedRows>> fetched;  // of each part
  const sampling::BatchPlan& plan;
  // Of each row of the window.
  const std::int64_t* positions = nullptr;  // in its batch
  const std::int64_t* sizes = nullptr;
  std::int64_t* place = nullptr;   // in what they are decoded to, where the sink did not set it
  std::int32_t* counts = nullptr;  // set here
  SliceOrder& order;               // of the batch
  bool past_caches = false;
};

// Decodes the rows of one slice for a sink, which takes them step by step. Whether files changed
// meanwhile is asked once a batch, by its window, where rows can be moved.
class SliceDecoder {
 public:
  using Piece = RowsByStore::Piece;
  // REQUIRES: rows are fetched and sized. Lifetime: what it is given outlives it.
  SliceDecoder(const SliceRows& rows, const RowPipeline& pipeline, Casting casting);
  void run(const BatchSink& sink, matrix::Block& block, Counters& counters);

  // ---- for sinks

  const sampling::BatchPlan& plan() const { return rows_.plan; }
  // Of its rows in the batch; they are the n_rows() from there on. REQUIRES: cut by position.
  std::int64_t first_position() const {
    return static_cast<std::int64_t>(rows_.number) * kSliceRows;
  }
  std::int64_t n_rows() const;
  std::int64_t max_entries() const;
  // Calls take(step) for all rows. A piece goes by one step where is_whole(piece), else by small
  // ones.
  template <typename IsWhole, typename Take>
  void for_each_step(const IsWhole& is_whole, const Take& take) {
    for (const Piece& piece : rows_.pieces) cut_into_steps(piece, is_whole(piece));
    for (std::size_t s = 0; s < n_steps_; ++s) {
      prefetch(s);
      take(steps_[s]);
    }
  }
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
  static transform::RowRoom no_room() { return {}; }
  // Runs decoded rows through the pipeline; then calls fn(position in the batch, row) for each,
  // which may lie in room() by then.
  template <typename Fn, typename Room = decltype(no_room)>
  void change_rows(const Piece& step, std::int32_t* indices, void* values, DType dtype,
                   transform::EntryOrder order, const Fn& fn, const Room& room = no_room) {
    const std::int64_t decoded = now_ns();
    const auto width = static_cast<std::int64_t>(dtype_bytes(dtype));
    std::int64_t i = step.begin;
    try {
      for (; i < step.end; ++i)
        fn(rows_.positions[i], change_row(step, i, indices + rows_.place[i],
                                          static_cast<std::byte*>(values) + rows_.place[i] * width,
                                          dtype, order, room()));
    } catch (const Error& error) {
      if (const auto* rows = moved(step)) rows->require_intact();  // the values may be no cell's
      pipeline_.rethrow_placed(error, rows_.plan.rows[rows_.positions[i]]);
    }
    pipeline_.require_intact(part(step).store);
    transform_ns_ += now_ns() - decoded;
  }
  // Both, in memory of this thread's own.
  template <typename Fn, typename Room = decltype(no_room)>
  void decode_apart(const Piece& step, DType dtype, transform::EntryOrder order, const Fn& fn,
                    const Room& room = no_room) {
    const Scratch scratch = make_scratch(step, dtype);
    decode(step, scratch.indices, scratch.values, dtype, false);
    change_rows(step, scratch.indices, scratch.values, dtype, order, fn, room);
  }
  // What there is to be copied, of this slice and of later ones, now that this one is there.
  // REQUIRES: as first_position.
  std::vector<SliceOrder::Placed> give_in_order(std::unique_ptr<KeptRows> rows) {
    return rows_.order.place(rows_.number, std::move(rows));
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
  const collection::MovedRows* moved(const Piece& step) const { return fetched(step).moved(); }
  collection::CsrTarget sink_of(const Piece& step, std::int32_t* indices, void* values, DType dtype,
                                bool is_final) const;
  const RowsByStore::Part& part(const Piece& step) const {
    return rows_.parts[static_cast<std::size_t>(step.part)];
  }
  void cut_into_steps(const Piece& piece, bool is_whole);
  std::int64_t end_of_step(const Piece& piece, std::int64_t begin) const;
  void prefetch(std::size_t step);
  Scratch make_scratch(const Piece& step, DType dtype);
  transform::Row change_row(const Piece& step, std::int64_t i, std::int32_t* indices, void* values,
                            DType dtype, transform::EntryOrder order,
                            const transform::RowRoom& room);

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
