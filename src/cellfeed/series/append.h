// append_series: rows of more files added to a series directory, scaled as those that are there.
// Nothing that is there is written again; rows of known entities go on where theirs end.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "cellfeed/exec/progress.h"
#include "cellfeed/series/drift.h"

namespace cellfeed::series {

struct AppendOptions {
  std::vector<std::string> inputs;  // files, globs, or folders of files
  std::string dir;                  // a finished series
  // Of rows being decoded, sorted and written, by all threads.
  std::int64_t memory_budget = 1'000'000'000;
  int threads = 0;                  // 0: one a processor
  exec::ProgressCallback progress;  // in bytes; by one thread at a time
  std::stop_token stop;
};

struct AppendResult {
  std::int64_t n_rows = 0, n_entities = 0;  // of the directory now
  std::int64_t n_rows_added = 0;
  std::int64_t n_entities_added = 0, n_entities_extended = 0;
  std::int64_t n_files = 0, n_rows_read = 0, n_dropped = 0, n_merged = 0;  // of what was appended
  std::int64_t bytes = 0;                                                  // of the directory
  std::vector<FeatureDrift> drift;
  std::int64_t n_uploads_removed = 0;  // of appends that were killed, in a bucket
  std::vector<std::string> warnings;
  double seconds = 0, rows_per_second = 0;
};

// Killed, or failing, at any moment it leaves the old state or the new one. Throws Error: kNotFound
// (no finished series), kAlreadyExists (another writer), kInvalidArgument (rows that are not later
// than those that are there, columns), kCorruptData and kUnsupported (inputs, or what is there),
// kPrecision, kNoSpace, kIo, kCancelled.
AppendResult append_series(const AppendOptions& options);

}  // namespace cellfeed::series
