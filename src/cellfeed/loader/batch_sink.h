// BatchSink: what the rows of one matrix become in a batch. A block is planned, begun, filled slice
// by slice by any thread, and finished by the thread that decoded the last of them.
//
// To add one: derive from BatchSink, give it a block in matrix/batch.h that Recycler::give_back
// knows, and name it in make_sink. Thread-safe: immutable.
#pragma once

#include <cstdint>
#include <memory>

#include "cellfeed/loader/recycler.h"
#include "cellfeed/loader/rows_by_store.h"
#include "cellfeed/matrix/batch.h"

namespace cellfeed::loader {

class MatrixWindow;
class RowPipeline;
class SliceDecoder;
struct LoaderOptions;

class BatchSink {
 public:
  using Piece = RowsByStore::Piece;
  // The rows of one batch of a window. REQUIRES: the window is read.
  struct Rows {
    MatrixWindow& window;
    std::size_t batch = 0;
    std::size_t matrix = 0;  // its number in the batch
    const sampling::BatchPlan& plan;
    std::int64_t size() const { return static_cast<std::int64_t>(plan.rows.size()); }
  };

  virtual ~BatchSink() = default;
  // True when rows that are stored dense must be counted before they have a place.
  virtual bool counts_entries() const = 0;
  // Whether slices are cut by position, or by store.
  virtual bool takes_by_position() const { return false; }
  // What begin takes at most.
  virtual std::int64_t plan_bytes(const Recycler& recycler, const Rows& rows) const = 0;
  // Its buffers, every row given its place. Throws kInvalidArgument for a batch that is too large.
  virtual matrix::Block begin(Recycler& recycler, const Rows& rows) const = 0;
  // The rows of one slice.
  virtual void take(SliceDecoder& decoder, matrix::Block& block) const = 0;
  // Returns the bytes that the block took beside those of plan_bytes.
  virtual std::int64_t finish(Recycler& recycler, const Rows& rows, matrix::Block& block) const = 0;
};

// Throws kInvalidArgument for options that do not go together.
std::shared_ptr<const BatchSink> make_sink(const LoaderOptions& options,
                                           const RowPipeline& pipeline);

}  // namespace cellfeed::loader
