// What tables of a shard directory may take once they are decoded. Pure.
#pragma once

#include <cstdint>

namespace cellfeed::format::shard {

// Far more than any that is written takes (see max_written_bytes).
std::int64_t max_decoded_bytes(std::int64_t file_bytes, std::int64_t n_rows, std::int64_t n_cols);
// What the texts of a table may take, for a writer: so little that decoding them stays within
// max_decoded_bytes, whatever buffers grow by on the way.
std::int64_t max_written_bytes(std::int64_t file_bytes, std::int64_t n_rows, std::int64_t n_cols);

}  // namespace cellfeed::format::shard
