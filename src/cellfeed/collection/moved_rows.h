// What rows of stores may do beside being decoded (format/moved_rows.h), for layers that know
// nothing of formats.
#pragma once

#include "cellfeed/format/moved_rows.h"

namespace cellfeed::collection {

using format::ColumnPlaces;
using format::MovedRows;

}  // namespace cellfeed::collection
