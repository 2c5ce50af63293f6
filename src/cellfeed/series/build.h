// build_series: files of time series -> one directory of scaled rows, entity after entity.
// The inputs are read once and kept as records; two passes over these then find the statistics and
// write the rows. The bytes written depend on the inputs and options alone, never on threads,
// budget or interruptions.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "cellfeed/base/dtype.h"
#include "cellfeed/exec/progress.h"
#include "cellfeed/series/entity_rows.h"
#include "cellfeed/series/row_source.h"
#include "cellfeed/series/scaler.h"

namespace cellfeed::series {

struct BuildOptions {
  std::vector<std::string> inputs;  // files, globs, or folders of files
  std::string output_dir;
  RowColumns columns;
  // Columns of texts that are features beside those of numbers, where none are named.
  std::vector<std::string> numeric;
  std::vector<std::string> target;
  ScalerKind scaler = ScalerKind::kStandard;
  ScaleOf scale = ScaleOf::kGlobal;
  std::string given_scaler;  // scaler.json of another build; "": statistics of these rows
  // A time: statistics of the rows before it; "": of all. Of columns.fit_mask: of those it marks.
  std::string fit_until;
  Duplicates duplicates = Duplicates::kError;
  bool sort = true;
  // From row to row of an entity, as step_from_text reads it; rows that are not there are added,
  // without values. "": rows are as they are.
  std::string freq;
  DType dtype = DType::kF32;
  std::int64_t window = 0, horizon = 1, stride = 1;  // defaults for readers; window 0: none
  // Of rows being decoded, sorted and written, by all threads. Files of the system's cache are not
  // counted.
  std::int64_t memory_budget = 1'000'000'000;
  int threads = 0;  // 0: one a processor
  bool resume = false;
  exec::ProgressCallback progress;  // in bytes; by one thread at a time
  std::stop_token stop;
};

struct BuildResult {
  std::int64_t n_rows = 0, n_entities = 0, n_features = 0;
  std::int64_t n_files = 0;
  std::int64_t n_parts = 0, n_parts_resumed = 0;
  std::int64_t n_rows_read = 0, n_dropped = 0, n_merged = 0, n_filled = 0;
  std::int64_t bytes = 0;              // of the directory
  std::int64_t n_uploads_removed = 0;  // of builds that were killed, in a bucket
  std::vector<std::string> warnings;
  std::string left_out;  // the warning of numbers in texts that are no features; "": none
  double seconds = 0, rows_per_second = 0;
};

// Throws Error: kInvalidArgument and kNoSuchKey (options, columns), kNotFound, kAlreadyExists,
// kCorruptData and kUnsupported (inputs), kPrecision (a value beyond the dtype), kNoSpace, kIo,
// kCancelled.
BuildResult build_series(const BuildOptions& options);

}  // namespace cellfeed::series
