// content_fingerprint: a number that follows from the bytes of a file, wherever and under whatever
// name and time they lie.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "cellfeed/format/h5_file.h"

namespace cellfeed::format {

// Of it and of those that the groups lead to, where that is allowed. Of a file up to 4 MiB every
// byte. Of a larger one its size, 64 KiB at both ends, 4 KiB at 256 places spread evenly, and of
// every data set in the groups named (and in groups in them) its header and 4 KiB at 8 places; up
// to 32 KiB the whole of what is not in chunks. So it tells files that were written apart, and a
// matrix or column that was changed throughout; not a few values changed in place where no sample
// lies. `choice` is what of it is read: another choice is another number, and none is 0. Costs
// about a millisecond of a file in memory.
std::uint64_t content_fingerprint(const H5File& file, std::span<const std::string> groups,
                                  const std::string& choice);

// Of files that are no HDF5, in this order: of each up to 4 MiB every byte, of a larger one its
// size and samples as above.
std::uint64_t content_fingerprint(std::span<const std::string> paths, const std::string& choice);

}  // namespace cellfeed::format
