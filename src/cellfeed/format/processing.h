// Processing: what was done to the values of a matrix, as is recorded with it. Pure.
#pragma once

#include <string>

namespace cellfeed::format {

// Where an .h5ad file keeps it: an array of one text.
inline constexpr const char* kProcessingPath = "uns/cellfeed_processing";

struct Processing {
  // One JSON object: {"normalize_total": 10000.0, "log1p": true, ...}; "{}": nothing is recorded.
  std::string json = "{}";
  bool is_normalized = false;
  bool is_log1p = false;
  bool has_log1p_mark = false;  // scanpy's uns/log1p, which says so of what was X then

  bool is_logarithm() const { return is_log1p || has_log1p_mark; }
  // Notes that logarithms were taken of a base that the mark gives, and not the natural ones.
  void note_other_base();
  bool has_other_base() const;
  // The JSON with what the mark says.
  std::string marked_json() const;
  // What says so, for messages.
  std::string text() const;
};

// path: for messages. Throws kCorruptData for what is no JSON object.
Processing read_processing(const std::string& json, const std::string& path);

}  // namespace cellfeed::format
