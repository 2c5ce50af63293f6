// What a fuzz target gives: a function that takes any bytes, and inputs worth mutating.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

// Returns 0. A fault is an abort, a signal or a sanitizer's report; an expected cellfeed::Error is
// none.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace cellfeed::fuzz {

// Sound inputs for driver.cc, the same at every call. libFuzzer does without them.
std::vector<std::vector<std::uint8_t>> seed_inputs();

}  // namespace cellfeed::fuzz
