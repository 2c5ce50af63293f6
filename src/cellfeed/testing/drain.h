// All batches that an iterator still has. Tests only.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "cellfeed/loader/batch_iterator.h"

namespace cellfeed::testing {

inline std::vector<std::shared_ptr<loader::LoadedBatch>> drain(loader::BatchIterator& iterator) {
  std::vector<std::shared_ptr<loader::LoadedBatch>> batches;
  for (;;) {
    std::shared_ptr<loader::LoadedBatch> batch;
    const auto status = iterator.next(1000, &batch);
    if (status == loader::BatchIterator::Status::kEnd) return batches;
    if (status == loader::BatchIterator::Status::kReady) batches.push_back(std::move(batch));
  }
}

}  // namespace cellfeed::testing
