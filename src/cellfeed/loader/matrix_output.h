// MatrixOutput: how the rows of one matrix of a collection reach batches. Immutable.
#pragma once

#include <memory>

#include "cellfeed/collection/collection.h"
#include "cellfeed/loader/batch_sink.h"
#include "cellfeed/loader/row_pipeline.h"

namespace cellfeed::loader {

struct MatrixOutput {
  // Lifetime: the collection that this is a matrix of outlives it.
  const collection::Collection* cells = nullptr;
  std::shared_ptr<const RowPipeline> pipeline;
  std::shared_ptr<const BatchSink> sink;
  DType dtype = DType::kF32;
};

}  // namespace cellfeed::loader
