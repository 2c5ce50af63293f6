// verify_series: every byte of a series directory against its checksums, and what it says twice.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cellfeed/exec/thread_pool.h"

namespace cellfeed::series {

struct SeriesDamage {
  std::string file;
  std::int64_t begin = 0, end = 0;  // bytes; both 0 where the whole file is meant
  std::string what;
};

// progress(done, total) in bytes, by one thread at a time; what it throws stops it. Throws
// kNotFound where there is no finished series.
std::vector<SeriesDamage> verify_series(
    const std::string& dir, exec::ThreadPool& pool,
    const std::function<void(std::int64_t done, std::int64_t total)>& progress);

}  // namespace cellfeed::series
