// The parts that a large object is sent in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "cellfeed/cloud/staged_file.h"

namespace cellfeed::cloud {

// Stores take 10,000 parts and more, of 5 MiB and more.
struct PartSizes {
  std::int64_t bytes = 0;  // of each but the last
  std::size_t n = 0;
};
PartSizes part_sizes(std::int64_t content_bytes);

// Some at a time, each on a thread of its own. The first failure is thrown, when those under way
// have ended.
void send_parts(const StagedFile::Content& content,
                const std::function<void(std::size_t part, std::string body)>& send);

}  // namespace cellfeed::cloud
