// ZarrFiles: small zarr stores as tests want them: an AnnData, or any keys, as files or zipped.
// Written from the specifications of the formats alone, so that readers are tested against these.
#pragma once

#include <zstd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cellfeed/base/dtype.h"
#include "cellfeed/testing/memory_file_system.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::testing {

struct ZarrOptions {
  int format = 2;
  std::int64_t chunk_elements = 64;
  bool is_compressed = true;      // with zstd
  std::int64_t shard_chunks = 0;  // chunks of a shard; 0: none. Of format 3.
  bool index_is_first = false;
  bool index_has_crc = true;
  char separator = '.';  // of format 2
  bool is_consolidated = true;
};

class ZarrFiles {
 public:
  using Bytes = std::vector<std::byte>;

  explicit ZarrFiles(ZarrOptions options) : options_(options) { add_group("", "{}"); }

  const std::map<std::string, Bytes>& files() const { return files_; }
  std::map<std::string, Bytes>& files() { return files_; }

  // attributes: a JSON object.
  void add_group(const std::string& path, const std::string& attributes) {
    if (options_.format == 2) {
      put_metadata(path, ".zgroup", R"({"zarr_format": 2})");
      put_metadata(path, ".zattrs", attributes);
    } else {
      put_metadata(path, "zarr.json",
                   R"({"zarr_format": 3, "node_type": "group", "attributes": )" + attributes + "}");
    }
  }

  // Numbers in one dimension.
  template <typename T>
  void add_numbers(const std::string& path, std::span<const T> values) {
    const std::int64_t n = std::ssize(values);
    add_array_metadata(path, n, dtype_of<T>());
    Bytes padded(static_cast<std::size_t>(n_chunks(n) * options_.chunk_elements) * sizeof(T));
    if (n > 0) std::memcpy(padded.data(), values.data(), values.size_bytes());
    const auto chunk_bytes = static_cast<std::size_t>(options_.chunk_elements) * sizeof(T);
    std::vector<Bytes> chunks;
    for (std::size_t at = 0; at < padded.size(); at += chunk_bytes)
      chunks.push_back(stored(std::span(padded).subspan(at, chunk_bytes)));
    add_chunks(path, chunks);
  }

  // Texts in one dimension, in one chunk.
  void add_texts(const std::string& path, const std::vector<std::string>& texts) {
    const std::string shape = std::to_string(texts.size());
    const std::string chunk = std::to_string(std::max<std::size_t>(texts.size(), 1));
    if (options_.format == 2) {
      put_metadata(path, ".zarray",
                   R"({"zarr_format": 2, "dtype": "|O", "order": "C", "fill_value": "", )"
                   R"("filters": [{"id": "vlen-utf8"}], "compressor": null, "shape": [)" +
                       shape + R"(], "chunks": [)" + chunk + "]}");
    } else {
      put_metadata(path, "zarr.json",
                   v3_array(shape, "string", chunk, R"([{"name": "vlen-utf8"}])", R"("")"));
    }
    if (texts.empty()) return;
    Bytes bytes;
    append(bytes, static_cast<std::uint32_t>(texts.size()));
    for (const std::string& text : texts) {
      append(bytes, static_cast<std::uint32_t>(text.size()));
      for (const char c : text) bytes.push_back(static_cast<std::byte>(c));
    }
    files_[key_of(path, 0)] = std::move(bytes);
  }

  // Puts what is known of all nodes at the root.
  void finish() {
    if (!options_.is_consolidated) return;
    std::string entries;
    for (const auto& [key, text] : metadata_) {
      if (options_.format == 3 && key == "zarr.json") continue;
      if (!entries.empty()) entries += ", ";
      const std::string name =
          options_.format == 3 ? key.substr(0, key.size() - std::strlen("/zarr.json")) : key;
      entries += '"' + name + "\": " + text;
    }
    if (options_.format == 2)
      return put(".zmetadata", R"({"zarr_consolidated_format": 1, "metadata": {)" + entries + "}}");
    std::string root = metadata_["zarr.json"];
    root.pop_back();
    put("zarr.json",
        root + R"(, "consolidated_metadata": {"kind": "inline", "metadata": {)" + entries + "}}}");
  }

  void write(const TempDir& place, const std::string& name) const {
    for (const auto& [key, bytes] : files_) {
      std::filesystem::create_directories(
          std::filesystem::path(place.file(name + "/" + key)).parent_path());
      place.write(name + "/" + key, bytes);
    }
  }
  void write(const MemoryPlace& place, const std::string& name) const {
    for (const auto& [key, bytes] : files_) place.files().put(place.file(name + "/" + key), bytes);
  }

  // A zip file of stored entries, in the order given.
  static Bytes zipped(const std::vector<std::pair<std::string, Bytes>>& entries);
  Bytes zipped() const { return zipped({files_.begin(), files_.end()}); }

  template <typename T>
  static void append(Bytes& bytes, T value) {
    const auto more = std::as_bytes(std::span(&value, 1));
    bytes.insert(bytes.end(), more.begin(), more.end());
  }
  static std::uint32_t crc(std::span<const std::byte> data, std::uint32_t polynomial) {
    std::uint32_t crc = ~std::uint32_t{0};
    for (const std::byte byte : data) {
      crc ^= std::to_integer<std::uint32_t>(byte);
      for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? polynomial : 0);
    }
    return ~crc;
  }
  static constexpr std::uint32_t kCrc32c = 0x82f63b78;
  static constexpr std::uint32_t kCrc32 = 0xedb88320;

 private:
  std::int64_t n_chunks(std::int64_t n) const {
    return (n + options_.chunk_elements - 1) / options_.chunk_elements;
  }
  void put(const std::string& key, std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    files_[key] = {bytes.begin(), bytes.end()};
  }
  void put_metadata(const std::string& path, const std::string& name, const std::string& text) {
    const std::string key = path.empty() ? name : path + "/" + name;
    metadata_[key] = text;
    put(key, text);
  }
  std::string key_of(const std::string& path, std::int64_t number) const {
    return path + (options_.format == 2 ? "/" : "/c/") + std::to_string(number);
  }
  std::string v3_array(const std::string& shape, const std::string& type, const std::string& chunk,
                       const std::string& codecs, const std::string& fill) const {
    return R"({"zarr_format": 3, "node_type": "array", "attributes": {}, "fill_value": )" + fill +
           R"(, "shape": [)" + shape + R"(], "data_type": ")" + type +
           R"(", "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [)" + chunk +
           R"(]}}, "chunk_key_encoding": {"name": "default"}, "codecs": )" + codecs + "}";
  }
  void add_array_metadata(const std::string& path, std::int64_t n, DType dtype) {
    const std::string shape = std::to_string(n);
    const std::string chunk = std::to_string(options_.chunk_elements);
    if (options_.format == 2) {
      const std::string name(dtype_name(dtype));
      const char kind = dtype == DType::kBool ? 'b' : name[0];
      put_metadata(path, ".zarray",
                   std::string(R"({"zarr_format": 2, "order": "C", "fill_value": 0, )") +
                       R"("filters": null, "dtype": "<)" + kind +
                       std::to_string(dtype_bytes(dtype)) + R"(", "compressor": )" +
                       (options_.is_compressed ? R"({"id": "zstd", "level": 1})" : "null") +
                       R"(, "shape": [)" + shape + R"(], "chunks": [)" + chunk + "]}");
      return;
    }
    std::string codecs = R"([{"name": "bytes", "configuration": {"endian": "little"}})";
    if (options_.is_compressed) codecs += R"(, {"name": "zstd", "configuration": {"level": 1}})";
    codecs += "]";
    std::string outer = chunk;
    if (options_.shard_chunks > 0) {
      outer = std::to_string(options_.chunk_elements * options_.shard_chunks);
      codecs = R"([{"name": "sharding_indexed", "configuration": {"chunk_shape": [)" + chunk +
               R"(], "codecs": )" + codecs +
               R"(, "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}})" +
               (options_.index_has_crc ? R"(, {"name": "crc32c"})" : "") +
               R"(], "index_location": ")" + (options_.index_is_first ? "start" : "end") +
               R"("}}])";
    }
    put_metadata(path, "zarr.json",
                 v3_array(shape, std::string(dtype_name(dtype)), outer, codecs, "0"));
  }
  Bytes stored(std::span<const std::byte> chunk) const {
    if (!options_.is_compressed) return {chunk.begin(), chunk.end()};
    Bytes out(ZSTD_compressBound(chunk.size()));
    out.resize(ZSTD_compress(out.data(), out.size(), chunk.data(), chunk.size(), 1));
    return out;
  }
  void add_chunks(const std::string& path, const std::vector<Bytes>& chunks) {
    if (options_.shard_chunks == 0) {
      for (std::size_t i = 0; i < chunks.size(); ++i)
        files_[key_of(path, static_cast<std::int64_t>(i))] = chunks[i];
      return;
    }
    const auto each = static_cast<std::size_t>(options_.shard_chunks);
    for (std::size_t first = 0; first < chunks.size(); first += each)
      files_[key_of(path, static_cast<std::int64_t>(first / each))] =
          shard(std::span(chunks).subspan(first, std::min(each, chunks.size() - first)));
  }
  Bytes shard(std::span<const Bytes> chunks) const {
    const auto each = static_cast<std::size_t>(options_.shard_chunks);
    std::uint64_t offset =
        options_.index_is_first ? each * 16 + (options_.index_has_crc ? 4 : 0) : 0;
    Bytes index, data;
    for (std::size_t i = 0; i < each; ++i) {
      const bool is_there = i < chunks.size();
      append(index, is_there ? offset : ~std::uint64_t{0});
      append(index, is_there ? std::uint64_t{chunks[i].size()} : ~std::uint64_t{0});
      if (!is_there) continue;
      data.insert(data.end(), chunks[i].begin(), chunks[i].end());
      offset += chunks[i].size();
    }
    if (options_.index_has_crc) append(index, crc(index, kCrc32c));
    Bytes& begin = options_.index_is_first ? index : data;
    const Bytes& end = options_.index_is_first ? data : index;
    begin.insert(begin.end(), end.begin(), end.end());
    return begin;
  }

  const ZarrOptions options_;
  std::map<std::string, std::string> metadata_;
  std::map<std::string, Bytes> files_;
};

inline ZarrFiles::Bytes ZarrFiles::zipped(
    const std::vector<std::pair<std::string, Bytes>>& entries) {
  Bytes zip, directory;
  const auto add_common = [](Bytes& to, const std::string& name, const Bytes& bytes) {
    for (int i = 0; i < 5; ++i) append(to, static_cast<std::uint16_t>(i == 0 ? 20 : 0));
    append(to, crc(bytes, kCrc32));
    append(to, static_cast<std::uint32_t>(bytes.size()));
    append(to, static_cast<std::uint32_t>(bytes.size()));
    append(to, static_cast<std::uint16_t>(name.size()));
    append(to, std::uint16_t{0});
  };
  const auto add_name = [](Bytes& to, const std::string& name) {
    const auto bytes = std::as_bytes(std::span(name));
    to.insert(to.end(), bytes.begin(), bytes.end());
  };
  for (const auto& [name, bytes] : entries) {
    const auto offset = static_cast<std::uint32_t>(zip.size());
    append(zip, std::uint32_t{0x04034b50});
    add_common(zip, name, bytes);
    add_name(zip, name);
    zip.insert(zip.end(), bytes.begin(), bytes.end());
    append(directory, std::uint32_t{0x02014b50});
    append(directory, std::uint16_t{20});
    add_common(directory, name, bytes);
    for (int i = 0; i < 3; ++i) append(directory, std::uint16_t{0});
    append(directory, std::uint32_t{0});
    append(directory, offset);
    add_name(directory, name);
  }
  const auto begin = static_cast<std::uint32_t>(zip.size());
  zip.insert(zip.end(), directory.begin(), directory.end());
  append(zip, std::uint32_t{0x06054b50});
  append(zip, std::uint32_t{0});
  for (int i = 0; i < 2; ++i) append(zip, static_cast<std::uint16_t>(entries.size()));
  append(zip, static_cast<std::uint32_t>(directory.size()));
  append(zip, begin);
  append(zip, std::uint16_t{0});
  return zip;
}

}  // namespace cellfeed::testing
