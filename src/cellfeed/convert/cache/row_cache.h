// RowCache: rows of matrices that are stored otherwise, written once as packed shards and used
// again for as long as their files are what they were. A file's cache is a folder that holds, for
// each matrix, a shard directory and, written last, a note of what the files were.
//
// Thread-safe. Processes that want the same rows at once wait for the first of them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "cellfeed/convert/progress.h"
#include "cellfeed/exec/available_memory.h"
#include "cellfeed/format/entry_store.h"

namespace cellfeed::convert {

struct RowCacheOptions {
  // Folder of the caches of all files. "": what CELLFEED_CACHE names, else the user's own.
  std::string dir;
  int threads = 0;  // 0: what the machine allows
  std::int64_t memory_budget = exec::default_memory_budget(1'000'000'000);
  // Rows are written as some 16 shards, each of so many cells at least. More: fewer files, and more
  // to repeat after a kill.
  std::int64_t min_shard_cells = 100'000;
  // Where the file system has no locks: how long another process may show no sign of life while it
  // writes rows, before waiting for it is given up.
  std::int64_t silence_ms = 900'000;
};

class RowCache {
 public:
  explicit RowCache(RowCacheOptions options) : options_(std::move(options)) {}

  // Where the rows are or will be; empty where no folder is named for them.
  std::string directory_of(const format::EntryStore& store) const;
  // True where they are there, and of the files as they are now.
  bool has_rows(const format::EntryStore& store) const;
  // What make_rows() will do, for people.
  std::string announcement(const format::EntryStore& store) const;
  // Does nothing where another process has made them meanwhile; say(text) is told, once, when that
  // one is waited for. Leaves nothing behind when it throws: kIo (also where a process that was
  // killed left a lock that nothing frees, naming it), kNoSpace, kCancelled, and what reading
  // throws.
  void make_rows(const format::EntryStore& store, const ProgressCallback& progress = {},
                 std::stop_token stop = {},
                 const std::function<void(const std::string&)>& say = {}) const;
  // REQUIRES: has_rows().
  std::vector<std::unique_ptr<format::RowStore>> open_rows(
      std::unique_ptr<format::EntryStore> store, const format::OpenOptions& options) const;

 private:
  RowCacheOptions options_;
};

}  // namespace cellfeed::convert
