// Reads of ranges of objects over HTTP: many at once, each asked for again where it fails for now
// or takes much longer than others, until its deadline. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>

#include "cellfeed/cloud/http/http_object.h"
#include "cellfeed/io/byte_source.h"

namespace cellfeed::cloud {

// Returns what waits for all of them; its bytes are those of the object's version, or wait()
// throws: kCorruptData where it was written again, kNotFound where it was removed, kIo where it
// could not be read in time. REQUIRES: all ranges are inside the object.
std::unique_ptr<io::PendingReads> begin_ranges(std::shared_ptr<const HttpObject> object,
                                               std::span<const io::ReadRequest> requests);

// What this process has asked for so far.
struct FetchCounts {
  std::int64_t requests = 0;  // all of them, those below included
  std::int64_t again = 0;     // after a failure
  std::int64_t doubled = 0;   // beside a slow one
  std::int64_t depth = 0;     // requests under way at most, as found best so far
};
FetchCounts fetch_counts();
// Of ranges to have under way: twice as many as depth says, of the size that they had lately.
std::int64_t bytes_in_flight();

// From the first request for a range to its last one, of this process: two minutes, or what the
// environment variable CELLFEED_CLOUD_DEADLINE says, in seconds; four times that where bytes come
// all the while, as over a slow link. Throws kInvalidArgument where that is no number above 0.
std::chrono::milliseconds fetch_deadline();

}  // namespace cellfeed::cloud
