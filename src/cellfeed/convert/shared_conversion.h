// SharedConversion: a conversion to shards, or what preprocess makes of its inputs, whose shards
// are written by other processes on this machine or others that see the same folders. This process
// holds the directory: it plans, hears of shards that are whole, and writes the manifest. The bytes
// are those of convert_to_shards and preprocess.
//
// Not thread-safe. Lifetime: the directory is locked until it is destroyed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cellfeed/convert/conversion_run.h"
#include "cellfeed/convert/first_pass.h"
#include "cellfeed/convert/preprocess/preprocessing.h"
#include "cellfeed/convert/shared_options.h"

namespace cellfeed::convert {

struct SharedResult {
  ConvertResult shards;
  std::optional<PreprocessResult> processed;  // of preprocess
};

class SharedConversion {
 public:
  // Looks at all cells where that decides what is written, and begins. Throws what
  // convert_to_shards and preprocess throw. REQUIRES: inputs have rows; see late_rows().
  explicit SharedConversion(const SharedOptions& options);

  // What ShardWriter's processes are told.
  const std::string& task() const { return task_; }
  // Of the inputs, one by one, for processes that look whether they see them.
  std::vector<std::string> paths() const { return options_.convert.input.all_paths(); }
  std::int64_t n_cells() const { return conversion_->sources().n_cells(); }
  std::int64_t n_shards() const { return conversion_->n_shards(); }
  std::int64_t cells_of(std::int64_t shard) const;
  std::vector<std::int64_t> missing_shards() const { return run_->missing_shards(); }

  // A shard that is whole, as ShardWorker::write gives it; again is no error. Lasting, once this
  // returns. Throws kInvalidArgument for a shard of another conversion.
  void add(const std::string& shard);
  // Throws kInvalidArgument naming a shard that is missing, and kNotFound where a file is not
  // there.
  SharedResult finish();

 private:
  SharedOptions options_;
  ProgressMeter clock_{{}, "", 0};
  std::unique_ptr<Preprocessing> preprocessing_;
  FirstPass found_;
  std::unique_ptr<OpenConversion> conversion_;
  std::unique_ptr<ConversionRun> run_;
  std::string task_;
};

}  // namespace cellfeed::convert
