// How deep JSON is nested, looked at before it is parsed: parsing is bounded, but copying and
// writing out what was parsed recurse.
#pragma once

#include <string>
#include <string_view>

namespace cellfeed {

inline constexpr int kMaxJsonDepth = 64;

// Throws kCorruptData where brackets are nested deeper. Of text that is no JSON it may say either.
void require_shallow_json(std::string_view text, const std::string& path,
                          int max_depth = kMaxJsonDepth);

}  // namespace cellfeed
