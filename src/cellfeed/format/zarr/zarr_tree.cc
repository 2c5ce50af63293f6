#include "cellfeed/format/zarr/zarr_tree.h"

#include <algorithm>

#include "cellfeed/base/error.h"
#include "cellfeed/base/mix.h"
#include "cellfeed/format/zarr/zarr_array.h"
#include "cellfeed/format/zarr/zarr_node.h"
#include "cellfeed/io/running_checksum.h"

namespace cellfeed::format::zarr {
namespace {

namespace zr = cellfeed::zarr;

constexpr int kMaxHashedDepth = 3;  // of groups: "obs" / a column / its values
constexpr std::int64_t kHashedChunks = 16;
constexpr std::int64_t kHashedBytes = 64 << 10;

class Fingerprint {
 public:
  explicit Fingerprint(const zr::Hierarchy& store) : store_(store) {}

  void add_text(const std::string& text) {
    const std::uint64_t size = text.size();
    checksum_.add(std::as_bytes(std::span(&size, 1)));
    checksum_.add(std::as_bytes(std::span(text)));
  }
  void add(const std::string& path, int depth) {
    const auto node = store_.find(path);
    add_text(path);
    add_text(store_.text_of(path));
    if (!node) return;
    if (node->is_array) return add_array(*node, path);
    if (depth == kMaxHashedDepth) return;
    for (const std::string& name : store_.members(path)) add(path + "/" + name, depth + 1);
  }
  std::uint64_t value() const { return checksum_.value(); }

 private:
  // What is not readable here is told apart by its metadata.
  void add_array(const zr::Node& node, const std::string& path) {
    try {
      const zr::ChunkSource chunks(store_.shared_store(), path, store_.array_of(node, path));
      const std::int64_t n = std::min(chunks.n_chunks(), kHashedChunks);
      for (std::int64_t i = 0; i < n; ++i)
        add_chunk(chunks, n == 1 ? 0 : (chunks.n_chunks() - 1) / (n - 1) * i);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUnsupported) throw;
    }
  }
  void add_chunk(const zr::ChunkSource& chunks, std::int64_t chunk) {
    const zr::ChunkPlace place = chunks.locate(chunk);
    checksum_.add(std::as_bytes(std::span(&place.range.length, 1)));
    if (place.range.length == 0) return;
    const std::int64_t n = std::min(place.range.length, kHashedBytes);
    std::vector<std::byte> bytes(static_cast<std::size_t>(n));
    chunks.read(place.range.offset, bytes);
    checksum_.add(bytes);
    if (place.range.length == n) return;
    chunks.read(place.range.offset + place.range.length - n, bytes);
    checksum_.add(bytes);
  }

  const zr::Hierarchy& store_;
  io::RunningChecksum checksum_;
};

// As Hierarchy::find takes it.
std::string as_written(std::string path) {
  std::ranges::replace(path, '\\', '/');
  return path;
}

}  // namespace

std::unique_ptr<StoredNode> ZarrTree::find(const std::string& path) const {
  const std::string written = as_written(path);
  auto node = store_.find(written);
  return node ? std::make_unique<ZarrNode>(store_, written, std::move(node)) : nullptr;
}

std::unique_ptr<StoredArray> ZarrTree::open_array(const std::string& path,
                                                  const ArrayUse& use) const {
  const std::string written = as_written(path);
  const auto node = store_.find(written);
  if (!node || !node->is_array)
    throw_error(ErrorKind::kCorruptData, this->path(), "no such array: '{}'", path);
  return std::make_unique<ZarrArray>(store_, written, store_.array_of(*node, written), use);
}

std::vector<std::string> ZarrTree::files_of(std::span<const std::string> arrays) const {
  std::vector<std::string> files{store_.store().file_of(store_.root_key())};
  for (const std::string& path : arrays) {
    const auto node = store_.find(path);
    if (!node || !node->is_array) continue;
    const zr::ChunkSource chunks(store_.shared_store(), path, store_.array_of(*node, path));
    for (std::int64_t chunk = 0; chunk < chunks.n_chunks(); ++chunk)
      if (chunks.locate(chunk).state != zr::ChunkState::kNoKey)
        files.push_back(chunks.file_of_chunk(chunk));
  }
  std::ranges::sort(files);
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

std::uint64_t ZarrTree::fingerprint(std::span<const std::string> groups,
                                    const std::string& choice) const {
  Fingerprint found(store_);
  for (const std::string& group : groups) found.add(group, 0);
  return std::max<std::uint64_t>(1, mix(found.value(), choice));
}

}  // namespace cellfeed::format::zarr
