// What stores leave out of their files though nobody asked for that. Pure.
#pragma once

#include <span>
#include <string>

#include "cellfeed/format/row_store.h"

namespace cellfeed::collection {

// One line that names the first file, and how many more there are; empty where nothing is left out.
std::string left_out_text(std::span<const format::RowStore* const> stores);

}  // namespace cellfeed::collection
