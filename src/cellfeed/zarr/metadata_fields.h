// Fields of the JSON that describes an array, checked. Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/zarr/array_metadata.h"

namespace cellfeed::zarr {

// More would not be a chunk.
inline constexpr std::int64_t kMaxChunkBytes = std::int64_t{1} << 32;

// What is read, for messages.
struct OfArray {
  const std::string& path;
  const std::string& name;

  template <typename... Args>
  [[noreturn]] void throw_corrupt(fmt::format_string<Args...> text, Args&&... args) const {
    throw_error(ErrorKind::kCorruptData, path, "damaged metadata of the zarr array '{}': {}", name,
                fmt::format(text, std::forward<Args>(args)...));
  }
  template <typename... Args>
  [[noreturn]] void throw_unsupported(fmt::format_string<Args...> text, Args&&... args) const {
    throw_error(ErrorKind::kUnsupported, path, "the zarr array '{}' is not readable: {}", name,
                fmt::format(text, std::forward<Args>(args)...));
  }
};

// Throws kCorruptData where it is missing.
const nlohmann::json& field_of(const nlohmann::json& json, const char* key, const OfArray& of);
// A list of lengths, none below `least`.
std::vector<std::int64_t> lengths_of(const nlohmann::json& json, const char* key,
                                     std::int64_t least, const OfArray& of);
// Sets shape and chunk_shape, and checks what both make together.
void set_shapes(std::vector<std::int64_t> shape, std::vector<std::int64_t> chunk_shape,
                const OfArray& of, ArrayMetadata& array);
void set_fill(const nlohmann::json& json, const OfArray& of, ArrayMetadata& array);

}  // namespace cellfeed::zarr
