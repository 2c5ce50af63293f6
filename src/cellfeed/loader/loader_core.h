// LoaderCore: what every iterator of a loader shares. Immutable but for the recycler and the
// counters.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "cellfeed/collection/collection.h"
#include "cellfeed/loader/counters.h"
#include "cellfeed/loader/matrix_output.h"
#include "cellfeed/loader/memory_account.h"
#include "cellfeed/loader/options.h"
#include "cellfeed/loader/recycler.h"

namespace cellfeed::loader {

struct LoaderCore : std::enable_shared_from_this<LoaderCore> {
  std::shared_ptr<const collection::Collection> collection;
  LoaderOptions options;
  std::vector<MatrixOutput> matrices;  // of the collection, in its order: of x first
  std::vector<std::shared_ptr<const collection::JoinedColumn>> obs;
  std::shared_ptr<const MemoryAccount> account;  // of queue_bytes
  std::shared_ptr<Recycler> recycler;
  std::shared_ptr<Counters> counters;
  // Parts of the memory budget: inflated chunks that stay; what each thread decodes in; and the
  // rest, for read-ahead, what is being inflated, finished batches and buffers that are used again.
  std::int64_t cache_bytes = 0;
  std::int64_t thread_bytes = 0;
  std::int64_t queue_bytes = 0;
  // Inflating takes memory for each thread that does it, so that few may where chunks are large.
  int inflating_threads = 1;
  std::int64_t inflating_bytes = 0;  // of all of them
  std::shared_ptr<const collection::CacheShare> cache_share;
  // True when the cache holds every chunk of the files, so that reading needs no memory of its own.
  bool caches_everything = false;
};

// Bytes of the loader's budget. Waits for room, but never for itself: once must_go_on() says that
// nothing else would make room, the bytes are taken, and counted, even where they exceed the
// budget. Empty once a stop is requested. The only place where a pass waits for memory.
std::optional<exec::ByteBudget::Lease> acquire_bytes(const LoaderCore& core, std::int64_t bytes,
                                                     const std::stop_token& stop,
                                                     const std::function<bool()>& must_go_on);

// Throws kInvalidArgument, kNoSuchKey before any expression is read.
std::shared_ptr<const LoaderCore> make_loader_core(
    std::shared_ptr<const collection::Collection> collection, LoaderOptions options);

}  // namespace cellfeed::loader
