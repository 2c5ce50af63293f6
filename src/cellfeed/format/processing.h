// Processing: what was done to the values of a matrix, as is recorded with it. Pure.
#pragma once

#include <span>
#include <string>

namespace cellfeed::format {

// Where an .h5ad file keeps it: an array of one text.
inline constexpr const char* kProcessingPath = "uns/cellfeed_processing";

struct Processing {
  // One JSON object: {"normalize_total": 10000.0, "log1p": true, ...}; "{}": nothing is recorded.
  std::string json = "{}";
  // The steps in it that change values: matrices with equal steps may be mixed.
  std::string value_steps = "{}";
  bool is_normalized = false;
  bool is_log1p = false;

  bool has_other_base() const;
  // What says so, for messages.
  std::string text() const;
};

// path: for messages. Throws kCorruptData for what is no JSON object.
Processing read_processing(const std::string& json, const std::string& path);
// The same where a file has scanpy's uns/log1p too, and where that gives a base other than e.
Processing with_log1p_mark(const Processing& recorded, bool has_base);
// What all of these record. Where their value_steps differ, "mixed" lists these. REQUIRES: one at
// least.
Processing join_processing(std::span<const Processing> all);

}  // namespace cellfeed::format
