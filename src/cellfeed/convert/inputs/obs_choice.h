// ObsChoice: which columns of obs are written. Pure.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "cellfeed/base/error.h"

namespace cellfeed::convert {

struct ObsChoice {
  std::vector<std::string> only{};  // empty: all but those that are excluded
  std::vector<std::string> excluded{};

  bool takes(const std::string& name) const {
    if (!only.empty()) return std::ranges::find(only, name) != only.end();
    return std::ranges::find(excluded, name) == excluded.end();
  }
};

inline void check_obs_choice(const ObsChoice& choice) {
  if (!choice.only.empty() && !choice.excluded.empty())
    throw_invalid("columns of obs are chosen and excluded: give one of the two");
}

}  // namespace cellfeed::convert
