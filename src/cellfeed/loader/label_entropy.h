// Label entropy of one batch, for the counters. Thread-safe: pure.
#pragma once

#include <cstdint>
#include <span>

namespace cellfeed::loader {

// Shannon entropy of the codes >= 0 (missing ones count in none), in bits; 0 without any. Time and
// memory follow from the number of rows alone, however many categories there are.
double label_entropy_bits(std::span<const std::int64_t> codes);

}  // namespace cellfeed::loader
