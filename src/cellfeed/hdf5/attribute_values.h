// Values of attributes as texts and integers. Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cellfeed/hdf5/attribute_message.h"

namespace cellfeed::hdf5 {

// All elements as texts, whatever the string type; none where they are no strings. An attribute
// without elements is an empty list, whatever its type: anndata writes float64. Throws
// kCorruptData.
std::optional<std::vector<std::string>> attribute_texts(const FileBytes& file,
                                                        const Attribute& attribute);
// Integers of 1 to 8 bytes of either byte order, and enumerations of one byte (booleans); none for
// other types. Those above 2^63 turn negative.
std::optional<std::vector<std::int64_t>> attribute_integers(const Attribute& attribute);

}  // namespace cellfeed::hdf5
