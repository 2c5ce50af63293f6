#include "cellfeed/convert/cache/packed_shards.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/convert/cache/packed_work.h"
#include "cellfeed/convert/inputs/selected_store.h"
#include "cellfeed/convert/shard_conversion.h"
#include "cellfeed/exec/stop_scope.h"
#include "cellfeed/exec/thread_start.h"
#include "cellfeed/format/shard/manifest.h"
#include "cellfeed/io/atomic_file.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::convert {
namespace {

constexpr std::int64_t kMinShardCells = 100'000;
constexpr std::int64_t kPackedShards = 16;
// So long nobody reads.
constexpr std::int64_t kIdleNs = 1'000'000'000;
// A tenth of a processor that others want: less, and locks of files would be held for long.
constexpr int kLowPriority = 10;

// Names are the file's own, also where some are repeated.
InputCells all_cells_of(const std::shared_ptr<const format::RowStore>& store) {
  std::vector<std::unique_ptr<format::RowStore>> stores;
  stores.push_back(all_rows(store));
  collection::CollectionOptions options;
  options.make_unique = true;
  return {.cells = std::make_shared<const collection::Collection>(std::move(stores), options),
          .make_unique = true};
}

void convert(const std::shared_ptr<const format::RowStore>& store, const io::Directory& shards,
             const std::stop_token& stop) {
  const exec::StopScope scope(stop);
  const format::StoreInfo& info = store->info();
  ConvertOptions options;
  options.input = all_cells_of(store);
  options.output_dir = shards.path();
  options.directory = shards;
  options.shard_size = std::max(kMinShardCells, (info.n_rows + kPackedShards - 1) / kPackedShards);
  options.carries_annotations = false;
  options.names_resume = false;
  options.threads = 1;
  options.memory_budget = 256'000'000;
  options.stop = stop;
  convert_to_shards(options);
}

}  // namespace

bool write_packed_shards(const std::shared_ptr<const format::RowStore>& store, PackedLog& log,
                         const std::stop_token& stop) {
  const auto lock = io::lock_unless_held(log.folder().directory(), kPackedShardsLock);
  if (!lock) return false;
  if (io::exists(log.shards_dir() + "/" + format::shard::kManifestName)) log.take_shards(false);
  if (log.has_whole_shards()) return true;
  log.forget_shards();
  remove_packed_shards(log.folder());
  convert(store, make_packed_shards(log.folder()).directory(), stop);
  log.take_shards(true);
  return true;
}

PackedShards::PackedShards(std::shared_ptr<const format::RowStore> store,
                           std::shared_ptr<PackedLog> log)
    : store_(std::move(store)), log_(std::move(log)) {
  thread_ = exec::start_thread([this](const std::stop_token&) { run(); });
}

PackedShards::~PackedShards() { stop_.request_stop(); }

// False where it is stopped before.
bool PackedShards::wait_until_idle() const {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any stopped;
  const std::stop_token stop = stop_.get_token();
  while (!stop.stop_requested() && log_->idle_ns() < kIdleNs)
    stopped.wait_for(lock, stop, std::chrono::nanoseconds(kIdleNs / 8), [] { return false; });
  return !stop.stop_requested();
}

void PackedShards::run() const {
  PackedWork work(stop_);
  const PackedWork::Question question(work);
  // Of this thread and of those that it starts.
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), kLowPriority);
  const auto warn = [&](const std::exception& error) {
    log_->warn(fmt::format("rows are kept, and cannot be written as shards: {}", error.what()));
  };
  try {
    if (wait_until_idle()) write_packed_shards(store_, *log_, stop_.get_token());
  } catch (const Error& error) {
    // The next process begins again.
    if (error.kind() != ErrorKind::kCancelled) warn(error);
  } catch (const std::exception& error) {
    warn(error);
  }
}

}  // namespace cellfeed::convert
