#include "cellfeed/convert/cache/row_cache.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>
#include <utility>

#include "cellfeed/base/argument_text.h"
#include "cellfeed/base/byte_size.h"
#include "cellfeed/base/error.h"
#include "cellfeed/convert/cache/cached_rows.h"
#include "cellfeed/convert/cache/row_cache_place.h"
#include "cellfeed/convert/cache/source_note.h"
#include "cellfeed/convert/shard_conversion.h"
#include "cellfeed/convert/transpose/transposed_store.h"
#include "cellfeed/format/shard/file_names.h"
#include "cellfeed/format/shard/manifest.h"
#include "cellfeed/io/atomic_file.h"
#include "cellfeed/io/cache_dir.h"
#include "cellfeed/io/directory.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/io/own_folder.h"
#include "cellfeed/io/small_file.h"

namespace cellfeed::convert {
namespace {

namespace fs = std::filesystem;
namespace shard = format::shard;
using format::EntryStore;
using format::RowStore;

constexpr std::int64_t kMaxNoteBytes = 1 << 20;
constexpr auto kWriterLookInterval = std::chrono::milliseconds(100);
// Of packed counts, for an estimate.
constexpr double kBytesPerEntry = 1.3;
// Into so many shards rows are divided, where these are large enough: what a kill costs at most,
// and so many files are open at once.
constexpr std::int64_t kCachedShards = 16;

bool is_whole(const shard::FileEntry& file, const std::string& dir) {
  const std::string path = (fs::path(dir) / file.name).string();
  const io::PathStatus status = io::status_of(path);
  return status.is_file() && status.size == file.bytes;
}

bool holds_values_of(const EntryStore& store, DType dtype) {
  const DType stored = store.info().value_dtype;
  return dtype == stored || (dtype == DType::kI64 && can_widen(stored));
}

// Shards of a matrix like this one, of which no file is missing or cut.
bool has_rows_of(const EntryStore& store, const CachePlace& place) {
  try {
    const shard::Manifest manifest = shard::read_manifest(place.rows());
    if (manifest.n_cells != store.info().n_rows || manifest.n_genes != store.info().n_cols ||
        !holds_values_of(store, manifest.value_dtype))
      return false;
    const auto is_there = [&](const shard::FileEntry* file) {
      return is_whole(*file, place.rows());
    };
    return std::ranges::all_of(shard::common_files(manifest), is_there) &&
           std::ranges::all_of(manifest.shards, [&](const shard::ShardEntry& entry) {
             return std::ranges::all_of(shard::files_of(entry), is_there);
           });
  } catch (const Error& error) {
    // Gone, damaged, or of another version: they are made again.
    if (error.kind() == ErrorKind::kIo) throw;
    return false;
  }
}

// Empty where there is none that can be read.
std::optional<SourceNote> read_note(const io::Directory& caches, const std::string& name) {
  if (!caches.file_bytes(name)) return std::nullopt;
  return note_from_json(io::read_small_file(caches.path_of(name), kMaxNoteBytes));
}

void write_note(const io::Directory& caches, const std::string& name, const SourceNote& note) {
  io::write_small_file({caches, name}, note_to_json(note));
}

// What stands there is of these files, and can be read by this version.
bool is_fitting(const EntryStore& store, const CachePlace& place, const io::OwnFolder& folder) {
  const io::Directory& caches = folder.directory();
  auto note = read_note(caches, place.note_name());
  if (!note) return false;
  const Sameness sameness = compare_source(*note, store.files());
  if (sameness == Sameness::kOther || !find_rows(caches, place.key) || !has_rows_of(store, place))
    return false;
  // So that the next one need not read the files. Where the folder cannot be written to it has to.
  if (sameness == Sameness::kSameByContent && folder.is_writable())
    write_note(caches, place.note_name(), *note);
  return true;
}

[[noreturn]] void throw_not_made(const EntryStore& store, const CachePlace& place,
                                 const Error& error) {
  const auto kind = error.kind();
  if (kind != ErrorKind::kIo && kind != ErrorKind::kNoSpace && kind != ErrorKind::kNotFound &&
      kind != ErrorKind::kAlreadyExists)
    throw;
  throw_error(kind, store.info().path,
              "'{}' is stored {}, and its rows cannot be written to '{}': {}; name another folder "
              "for them: {}, or CELLFEED_CACHE in the environment",
              store.info().layer, store.storage(), place.rows(), error.what(),
              argument("cache_dir"));
}

// Waits for the process that holds a lock, as long as it lives as far as that can be told.
class LockWait {
 public:
  LockWait(const CachePlace& place, std::int64_t silence_ms)
      : held_(fs::path(place.caches.path) / (place.lock_name() + io::DirectoryLock::kHeldSuffix)),
        silence_(silence_ms) {}

  // error: why the lock was not had. Throws where its holder was silent for too long.
  void go_on(const Error& error) {
    const io::PathStatus held = io::status_of(held_.string());
    const auto now = std::chrono::steady_clock::now();
    if (!held.is_there() || held.modified_ns != last_life_ || !seen_) {
      last_life_ = held.modified_ns;
      seen_ = now;
    } else if (now - *seen_ > silence_) {
      throw_error(ErrorKind::kIo, held_.string(),
                  "waited {} s for a process that shows no sign of life: {}",
                  silence_.count() / 1000, error.what());
    }
    std::this_thread::sleep_for(kWriterLookInterval);
  }

 private:
  const fs::path held_;  // there is none where the system frees locks of killed processes
  const std::chrono::milliseconds silence_;
  std::int64_t last_life_ = 0;
  std::optional<std::chrono::steady_clock::time_point> seen_;
};

// Null where the rows were made by the one that was waited for.
std::unique_ptr<io::DirectoryLock> take_lock(const EntryStore& store, const CachePlace& place,
                                             const io::OwnFolder& caches, std::int64_t silence_ms,
                                             const std::stop_token& stop,
                                             const std::function<void(const std::string&)>& say) {
  LockWait wait(place, silence_ms);
  for (bool is_first = true;; is_first = false) {
    try {
      return std::make_unique<io::DirectoryLock>(caches.directory(), place.lock_name());
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kAlreadyExists) throw;
      if (is_fitting(store, place, caches)) return nullptr;
      if (stop.stop_requested())
        throw Error(ErrorKind::kCancelled, "stopped before the end", store.info().path);
      if (is_first && say)
        say(fmt::format("{}: waiting for the rows of '{}', which another process writes: {}",
                        store.info().path, store.info().layer, error.what()));
      wait.go_on(error);
    }
  }
}

bool is_empty(const EntryStore& store) { return store.n_entries() == 0; }

// What the files were when the shards that are there were begun. Empty where nothing was, and where
// it cannot be told that the files have not been others meanwhile, if only for a while.
std::optional<SourceNote> begun_note(const EntryStore& store, const io::Directory& caches,
                                     const std::string& name) {
  auto note = read_note(caches, name);
  if (!note || compare_source(*note, store.files()) != Sameness::kSame) return std::nullopt;
  return note;
}

// Of what an earlier run left, and not of the disk or the caller.
bool is_of_leftovers(ErrorKind kind) {
  return kind == ErrorKind::kCorruptData || kind == ErrorKind::kUnsupported ||
         kind == ErrorKind::kInvalidArgument || kind == ErrorKind::kAlreadyExists ||
         kind == ErrorKind::kNotFound;
}

class RowWriter {
 public:
  RowWriter(const EntryStore& store, const CachePlace& place, const io::Directory& caches,
            const RowCacheOptions& cache, ProgressCallback progress, std::stop_token stop)
      : store_(store), place_(place), caches_(caches) {
    const std::int64_t n_rows = store.info().n_rows;
    options_.output_dir = place.rows();
    options_.shard_size =
        std::max(cache.min_shard_cells, (n_rows + kCachedShards - 1) / kCachedShards);
    options_.carries_annotations = false;
    options_.threads = cache.threads;
    options_.memory_budget = cache.memory_budget;
    options_.progress = std::move(progress);
    options_.stop = std::move(stop);
    options_.names_resume = false;
  }

  void write() {
    try {
      write_as_stored();
    } catch (const Error& error) {
      // Sums of entries that occur more than once.
      if (error.kind() != ErrorKind::kPrecision || !can_widen(store_.info().value_dtype)) throw;
      options_.widens_integers = true;
      write_anew();
    }
  }

 private:
  // With the finished shards of a run that was stopped, where they are of the same files.
  void write_as_stored() {
    const auto begun = begun_note(store_, caches_, place_.begun_name());
    if (begun && goes_on()) return finish(*begun);
    write_anew();
  }

  void write_anew() {
    remove_rows(caches_, place_);
    const SourceNote note = note_source(store_.files());
    write_note(caches_, place_.begun_name(), note);
    convert(ExistingTarget::kRefuse);
    finish(note);
  }

  // False where what is there is of no use.
  bool goes_on() {
    try {
      convert(ExistingTarget::kResume);
      return true;
    } catch (const Error& error) {
      if (!is_of_leftovers(error.kind())) throw;
      return false;
    }
  }

  void convert(ExistingTarget existing) {
    const format::OpenOptions choice = store_.choice();
    // Names are the file's own, not those of the shards.
    options_.input = open_inputs({.paths = {store_.info().path},
                                  .layer = choice.layer,
                                  .choice = choice.choice,
                                  .make_unique = true})
                         .input;
    options_.existing = existing;
    options_.directory = io::OwnFolder::make_within(caches_, place_.key, is_of_shards).directory();
    convert_to_shards(options_);
  }

  void finish(const SourceNote& note) {
    if (note_files(store_.files()) != note.files)
      throw Error(ErrorKind::kCorruptData,
                  "the file changed while its rows were written; open it again once it is whole",
                  store_.info().path);
    write_note(caches_, place_.note_name(), note);
    caches_.remove(place_.begun_name());
  }

  const EntryStore& store_;
  const CachePlace& place_;
  const io::Directory& caches_;
  ConvertOptions options_;
};

// Rows that were stopped on demand are finished by the next one that wants them.
bool is_worth_keeping(const CachePlace& place, const io::Directory& caches,
                      const std::stop_token& stop) {
  const auto rows = find_rows(caches, place.key);
  return stop.stop_requested() && rows &&
         std::ranges::any_of(rows->directory().names(), [](const std::string& name) {
           return shard::generation_of(name) && name.ends_with(".cells");
         });
}

// Throws kAlreadyExists where the place of the rows holds anything that no cache has.
void require_own_files(const CachePlace& place, const io::Directory& caches) {
  const std::string name =
      io::OwnFolder::make_within(caches, place.key, is_of_shards).foreign_name();
  if (!name.empty())
    throw_error(ErrorKind::kAlreadyExists, place.rows(),
                "holds a file that is not one of cached rows, so nothing there is replaced; move "
                "it away: '{}'",
                name);
}

}  // namespace

std::string RowCache::directory_of(const EntryStore& store) const {
  return io::chosen_cache_dir(options_.dir).empty() ? "" : cache_place(store, options_.dir).rows();
}

bool RowCache::has_rows(const EntryStore& store) const {
  if (is_empty(store)) return true;
  if (io::chosen_cache_dir(options_.dir).empty()) return false;
  const CachePlace place = cache_place(store, options_.dir);
  const auto caches = place.caches.find();
  return caches && caches->is_believable(place.caches.user) && is_fitting(store, place, *caches);
}

std::string RowCache::announcement(const EntryStore& store) const {
  const format::StoreInfo& info = store.info();
  const auto bytes =
      static_cast<std::int64_t>(kBytesPerEntry * static_cast<double>(store.n_entries()));
  return fmt::format(
      "{}: '{}' is stored {}; its {} non-zeros are written once as rows, about {} if they are "
      "counts, to {}",
      info.path, info.layer, store.storage(), store.n_entries(), format_byte_size(bytes),
      directory_of(store));
}

void RowCache::make_rows(const EntryStore& store, const ProgressCallback& progress,
                         std::stop_token stop,
                         const std::function<void(const std::string&)>& say) const {
  if (is_empty(store)) return;
  CachePlace place = cache_place(store, options_.dir);
  std::optional<io::OwnFolder> folder;
  try {
    folder = place.caches.make();
    const io::Directory& caches = folder->directory();
    const auto held = take_lock(store, place, *folder, options_.silence_ms, stop, say);
    if (!held || is_fitting(store, place, *folder)) return;
    require_own_files(place, caches);
    try {
      const auto alive = [&](const Progress& now) {
        held->show_life();
        if (progress) progress(now);
      };
      RowWriter(store, place, caches, options_, alive, stop).write();
    } catch (...) {
      if (!is_worth_keeping(place, caches, stop)) remove_rows(caches, place);
      throw;
    }
  } catch (const Error& error) {
    if (folder) folder->remove_if_empty();
    throw_not_made(store, place, error);
  }
}

std::vector<std::unique_ptr<RowStore>> RowCache::open_rows(
    std::unique_ptr<EntryStore> store, const format::OpenOptions& options) const {
  std::vector<std::unique_ptr<RowStore>> stores;
  if (is_empty(*store)) {
    auto rows = std::make_unique<TransposedStore>(std::move(store));
    exec::ThreadPool pool(1);
    rows->transpose(pool, {});
    stores.push_back(std::move(rows));
    return stores;
  }
  const CachePlace place = cache_place(*store, options_.dir);
  stores.push_back(open_cached_rows(std::move(store), place.rows(), options));
  return stores;
}

}  // namespace cellfeed::convert
