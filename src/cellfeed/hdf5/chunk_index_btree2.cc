// Version 2 B-tree of chunks, records of types 10 and 11. HDF5 File Format Specification 4.0,
// III.A.2, VII.E.
#include "cellfeed/hdf5/btree2.h"
#include "cellfeed/hdf5/chunk_index_kinds.h"

namespace cellfeed::hdf5 {
namespace {

class BTree2Index final : public ChunkIndex {
 public:
  BTree2Index(const FileBytes& file, ChunkedLayout layout, ChunkGrid grid, bool has_filters)
      : ChunkIndex(file, std::move(layout), std::move(grid), has_filters) {}

 protected:
  void find(std::span<const std::uint64_t> coordinates, std::span<Entry> found) const override;
};

// A record: address; where there are filters, stored bytes and filter mask; then the coordinates in
// chunks.
void BTree2Index::find(std::span<const std::uint64_t> coordinates, std::span<Entry> found) const {
  constexpr std::uint64_t kMaskBytes = 4, kMaxSizeBytes = 8, kCoordinateBytes = 8;
  const BTree2 tree(file_, layout_.address);
  const std::size_t rank = grid_.rank();
  const auto address_bytes = static_cast<std::uint64_t>(file_.offset_size());
  const bool is_filtered = tree.type() == BTree2Type::kFilteredChunks;
  const std::uint64_t fixed_bytes =
      address_bytes + rank * kCoordinateBytes + (is_filtered ? kMaskBytes + 1 : 0);
  tree.require(is_filtered ? BTree2Type::kFilteredChunks : BTree2Type::kChunks, fixed_bytes);
  const std::uint64_t size_bytes = is_filtered ? tree.record_bytes() - fixed_bytes + 1 : 0;
  if (is_filtered ? size_bytes > kMaxSizeBytes : tree.record_bytes() != fixed_bytes)
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "a version 2 B-tree of chunks with impossible records: {} bytes, {} dimensions",
                tree.record_bytes(), rank);
  const std::uint64_t first_coordinate = tree.record_bytes() - rank * kCoordinateBytes;
  const auto compare = [&](std::size_t chunk, std::span<const std::byte> record) {
    for (std::size_t d = 0; d < rank; ++d) {
      const std::uint64_t stored =
          little_endian(record.subspan(first_coordinate + d * kCoordinateBytes, kCoordinateBytes));
      const std::uint64_t sought = coordinates[chunk * rank + d];
      if (sought != stored) return sought < stored ? -1 : 1;
    }
    return 0;
  };
  tree.find_many(found.size(), compare, [&](std::size_t chunk, const Bytes& record) {
    Cursor at(file_, record, layout_.address, "version 2 B-tree record of a chunk");
    Entry& entry = found[chunk];
    entry.address = at.read_address();
    entry.n_bytes = is_filtered ? at.uint(static_cast<int>(size_bytes)) : layout_.chunk_bytes;
    if (is_filtered) entry.skipped = at.u32();
  });
}

}  // namespace

std::unique_ptr<ChunkIndex> make_btree2_index(const FileBytes& file, ChunkedLayout layout,
                                              ChunkGrid grid, bool has_filters) {
  return std::make_unique<BTree2Index>(file, std::move(layout), std::move(grid), has_filters);
}

}  // namespace cellfeed::hdf5
