// The single chunk index: the layout message is the index. HDF5 File Format Specification 4.0,
// VII.A.
#include "cellfeed/hdf5/chunk_index_kinds.h"

namespace cellfeed::hdf5 {
namespace {

class SingleChunkIndex final : public ChunkIndex {
 public:
  SingleChunkIndex(const FileBytes& file, ChunkedLayout layout, ChunkGrid grid, bool has_filters)
      : ChunkIndex(file, std::move(layout), std::move(grid), has_filters) {}

 protected:
  void find(std::span<const std::uint64_t>, std::span<Entry> found) const override {
    const auto& filtered = layout_.single_chunk;
    for (Entry& entry : found)
      entry = filtered ? Entry{layout_.address, filtered->n_bytes, filtered->filter_mask}
                       : Entry{layout_.address, layout_.chunk_bytes, 0};
  }
};

}  // namespace

std::unique_ptr<ChunkIndex> make_single_chunk_index(const FileBytes& file, ChunkedLayout layout,
                                                    ChunkGrid grid, bool has_filters) {
  if (grid.n_chunks() > 1)
    throw_error(ErrorKind::kCorruptData, file.path(),
                "a single chunk index for a dataset of several chunks: {}", grid.n_chunks());
  return std::make_unique<SingleChunkIndex>(file, std::move(layout), std::move(grid), has_filters);
}

}  // namespace cellfeed::hdf5
