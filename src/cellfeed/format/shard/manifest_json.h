// JSON of the manifest's parts, shared by the manifest and the journal. Reading throws kCorruptData
// naming the key.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "cellfeed/base/dtype.h"
#include "cellfeed/format/shard/manifest.h"

namespace cellfeed::format::shard {

using Json = nlohmann::ordered_json;

// Of the manifest, and of a shard that has them by itself.
inline constexpr const char* kLibrarySizesKey = "library_sizes";

Json parse_json(const std::string& text, const std::string& path);

// Typed access to one JSON object. Lifetime: the object and the path outlive it.
class JsonReader {
 public:
  JsonReader(const Json& object, const std::string& path);
  const Json& at(const char* key) const;
  std::string text(const char* key) const;
  std::int64_t count(const char* key) const;  // not negative, below 2^62
  bool flag(const char* key) const;
  std::uint64_t checksum(const char* key) const;
  DType dtype(const char* key) const;
  const Json& list(const char* key) const;

 private:
  const Json& object_;
  const std::string& path_;
};

std::string checksum_to_text(std::uint64_t checksum);  // 16 hexadecimal digits
std::string layout_name(Layout layout);
Layout layout_from_name(const std::string& name, const std::string& path);

Json file_to_json(const FileEntry& file);
// Refuses names that are not plain names of files inside the directory.
FileEntry file_from_json(const Json& json, const std::string& path);
Json matrix_to_json(const MatrixEntry& matrix);
MatrixEntry matrix_from_json(const Json& json, const std::string& path);
Json shard_to_json(const ShardEntry& shard);
ShardEntry shard_from_json(const Json& json, const std::string& path);

}  // namespace cellfeed::format::shard
