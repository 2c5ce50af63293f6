// What lies where a file should be, and is none of its bytes: what `git clone` leaves of a file
// that Git LFS keeps, the page that a server sends to people, and gzip around the whole of it. For
// whoever finds no data in a file.
#pragma once

#include <string_view>

#include "cellfeed/io/byte_source.h"

namespace cellfeed::io {

// As many bytes tell it.
inline constexpr std::int64_t kStandInBytes = 256;
// begin: of the file. Throws kCorruptData or kUnsupported, which say how to get the data.
void refuse_stand_in(std::string_view begin, const std::string& path);
// Reads that much. Throws what reading throws, too.
void refuse_stand_in(const ByteSource& source);

}  // namespace cellfeed::io
