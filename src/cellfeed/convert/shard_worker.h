// ShardWorker: the cells of a SharedConversion opened by another process, which writes some of its
// shards. A shard may be written again, and by several processes at once: the bytes are the same.
//
// Thread-safe: write(), by as many threads as Resources::n_callers says.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "cellfeed/convert/first_pass.h"
#include "cellfeed/convert/open_conversion.h"
#include "cellfeed/convert/preprocess/preprocessing.h"
#include "cellfeed/convert/shared_options.h"

namespace cellfeed::convert {

// What SharedConversion::task() is.
std::string task_text(const SharedOptions& options, const std::string& plan);
// Whether processes have to be told what the passes over all cells found.
bool needs_first_pass(const SharedOptions& options);

class ShardWorker {
 public:
  struct Resources {
    int threads = 1;
    std::int64_t memory_budget = exec::default_memory_budget(512'000'000);
    std::int64_t n_callers = 1;  // of write() at once: they share the threads and the budget
  };

  // task: as SharedConversion::task(). input: the cells that it was given, opened in this process.
  // Throws kNotFound where the folder of the shards is not seen here, kInvalidArgument where the
  // cells are others, kCancelled where that conversion is no longer under way.
  ShardWorker(const std::string& task, const InputCells& input, const Resources& resources);

  // Whether the conversion that it was opened for goes on. Reads what notes it.
  bool is_under_way() const;
  // Returns, of each shard, what SharedConversion::add takes, once its files are whole and
  // lasting. Progress counts the cells of these shards. Throws what the constructor throws.
  std::vector<std::string> write(const std::vector<std::int64_t>& shards,
                                 const ProgressCallback& progress, const std::stop_token& stop);

 private:
  void require_under_way() const;

  SharedOptions options_;
  std::uint64_t plan_fingerprint_ = 0;
  std::int64_t n_callers_;
  ShardTarget target_;
  std::unique_ptr<Preprocessing> preprocessing_;
  FirstPass found_;
  std::unique_ptr<OpenConversion> conversion_;
};

}  // namespace cellfeed::convert
