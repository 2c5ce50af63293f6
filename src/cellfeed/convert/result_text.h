// What conversions have made, as the program prints it. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "cellfeed/convert/append/append.h"
#include "cellfeed/convert/preprocess/preprocess.h"
#include "cellfeed/convert/shard_conversion.h"

namespace cellfeed::convert {

// A line of how many unfinished uploads of dead writers were removed; empty of none.
std::string removed_uploads_text(std::int64_t n_uploads);
// One JSON object, for machines.
std::string result_json(const std::string& output_dir, const ConvertResult& result);
std::string result_json(const std::string& output, const PreprocessResult& result);
std::string result_json(const std::string& dir, const AppendResult& result);
// Lines for people.
std::string result_text(const std::string& output_dir, const ConvertResult& result);
std::string result_text(const std::string& output, const PreprocessResult& result);
std::string result_text(const std::string& dir, const AppendResult& result);

}  // namespace cellfeed::convert
