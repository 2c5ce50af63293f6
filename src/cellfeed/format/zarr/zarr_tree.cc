#include "cellfeed/format/zarr/zarr_tree.h"

#include <algorithm>

#include "cellfeed/base/error.h"
#include "cellfeed/base/mix.h"
#include "cellfeed/format/zarr/tree_fingerprint.h"
#include "cellfeed/format/zarr/zarr_array.h"
#include "cellfeed/format/zarr/zarr_node.h"

namespace cellfeed::format::zarr {
namespace {

namespace zr = cellfeed::zarr;

}  // namespace

std::unique_ptr<StoredNode> ZarrTree::find(const std::string& path) const {
  const std::string written = zr::Hierarchy::as_written(path);
  auto node = store_.find(written);
  return node ? std::make_unique<ZarrNode>(store_, written, std::move(node)) : nullptr;
}

std::unique_ptr<StoredArray> ZarrTree::open_array(const std::string& path,
                                                  const ArrayUse& use) const {
  const std::string written = zr::Hierarchy::as_written(path);
  const auto node = store_.find(written);
  if (!node || !node->is_array)
    throw_error(ErrorKind::kCorruptData, this->path(), "no such array: '{}'", path);
  return std::make_unique<ZarrArray>(store_, written, store_.array_of(*node, written), use);
}

std::vector<std::string> ZarrTree::files_of(std::span<const std::string> arrays) const {
  std::vector<std::string> files{store_.store().file_of(store_.root_key())};
  for (const std::string& given : arrays) {
    const std::string path = zr::Hierarchy::as_written(given);
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
  return std::max<std::uint64_t>(1, mix(tree_fingerprint(store_, groups), choice));
}

}  // namespace cellfeed::format::zarr
