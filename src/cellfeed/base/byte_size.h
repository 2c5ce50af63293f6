// Byte sizes as people write them: "2GB", "512MB", "1GiB", "64k", "1000000".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cellfeed {

// KB, MB, GB, TB are powers of 1000; KiB, MiB, GiB, TiB powers of 1024; case and a space before the
// unit do not matter. Throws kInvalidArgument for anything else, for negative sizes and for sizes
// of 2^63 bytes and more.
std::int64_t parse_byte_size(std::string_view text);

// "1.50 GB", "300 bytes": three significant digits, powers of 1000.
std::string format_byte_size(std::int64_t bytes);

}  // namespace cellfeed
