// LoaderCore: what every iterator of a loader shares. Immutable but for the recycler and the counters.
#pragma once

#include <memory>
#include <vector>

#include "cellfeed/collection/collection.h"
#include "cellfeed/loader/counters.h"
#include "cellfeed/loader/options.h"
#include "cellfeed/loader/recycler.h"
#include "cellfeed/loader/row_pipeline.h"

namespace cellfeed::loader {

struct LoaderCore : std::enable_shared_from_this<LoaderCore> {
  std::shared_ptr<const collection::Collection> collection;
  LoaderOptions options;
  std::shared_ptr<const RowPipeline> pipeline;
  std::vector<std::shared_ptr<const collection::JoinedColumn>> obs;
  std::shared_ptr<Recycler> recycler;
  std::shared_ptr<Counters> counters;
};

// Throws kInvalidArgument, kNoSuchKey before any expression is read.
std::shared_ptr<const LoaderCore> make_loader_core(
    std::shared_ptr<const collection::Collection> collection, LoaderOptions options);

}  // namespace cellfeed::loader
