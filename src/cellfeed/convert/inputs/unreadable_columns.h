// What to say of columns of obs and var that are not written, because they cannot be read.
#pragma once

#include <string>

#include "cellfeed/collection/left_out.h"
#include "cellfeed/convert/inputs/carried_annotations.h"
#include "cellfeed/convert/inputs/sources.h"

namespace cellfeed::convert {

inline std::string unreadable_text(const Sources& sources) {
  const auto store = [&](std::int64_t s) -> const format::RowStore& { return sources.store(s); };
  const auto is_wanted = [&](const std::string& column) {
    return !column.starts_with("obs/") || sources.obs_choice().takes(column.substr(4));
  };
  const auto text_of = [&](const collection::ReadTable& read) {
    return collection::find_unreadable(sources.n_sources(), store, read, is_wanted).text;
  };
  std::string text = text_of(collection::read_no_obs);
  add_sentence(text, text_of([](const format::RowStore& each) { return each.read_var(); }));
  return text;
}

}  // namespace cellfeed::convert
