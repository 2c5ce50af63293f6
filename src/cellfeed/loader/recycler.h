// Recycler: keeps the buffers of batches that are done with, so that the next ones need no fresh
// pages. Thread-safe. Lifetime: shared by a loader and every batch it made.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cellfeed/matrix/batch.h"

namespace cellfeed::loader {

class Recycler {
 public:
  explicit Recycler(std::size_t max_kept) : max_kept_(max_kept) {}
  matrix::Buffer<std::int32_t> take_indices(std::size_t size);
  matrix::ValueBuffer take_values(DType dtype, std::size_t size);
  void give_back(matrix::Batch& batch);

 private:
  const std::size_t max_kept_;
  std::mutex mutex_;
  std::vector<matrix::Buffer<std::int32_t>> indices_;
  std::vector<matrix::ValueBuffer> values_;
};

// A batch that gives its buffers back when nobody holds it any more.
class LoadedBatch {
 public:
  LoadedBatch(matrix::Batch batch, std::shared_ptr<Recycler> recycler)
      : batch_(std::move(batch)), recycler_(std::move(recycler)) {}
  ~LoadedBatch() { recycler_->give_back(batch_); }
  LoadedBatch(const LoadedBatch&) = delete;
  LoadedBatch& operator=(const LoadedBatch&) = delete;
  matrix::Batch& batch() { return batch_; }
  const matrix::Batch& batch() const { return batch_; }

 private:
  matrix::Batch batch_;
  std::shared_ptr<Recycler> recycler_;
};

}  // namespace cellfeed::loader
