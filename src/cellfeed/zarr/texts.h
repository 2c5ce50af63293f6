// Texts of a chunk of a zarr array. Thread-safe: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "cellfeed/zarr/data_type.h"

namespace cellfeed::zarr {

// Calls visit(text) for elements [first, first + n) of a chunk, in order; texts are not checked but
// for code points. False where the bytes are no such chunk, at whatever time that is seen.
bool visit_texts(const DataType& type, std::span<const std::byte> chunk, std::int64_t first,
                 std::int64_t n, const std::function<void(std::string_view)>& visit);

}  // namespace cellfeed::zarr
