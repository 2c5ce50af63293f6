// The implicit index: chunks without filters, one after another. HDF5 File Format Specification
// 4.0, VII.B.
#include "cellfeed/base/checked_size.h"
#include "cellfeed/hdf5/chunk_index_kinds.h"

namespace cellfeed::hdf5 {
namespace {

class ImplicitIndex final : public ChunkIndex {
 public:
  ImplicitIndex(const FileBytes& file, ChunkedLayout layout, ChunkGrid grid, bool has_filters)
      : ChunkIndex(file, std::move(layout), std::move(grid), has_filters),
        counts_(grid_.max_counts()) {}

 protected:
  void find(std::span<const std::uint64_t> coordinates, std::span<Entry> found) const override {
    const auto numbers = linear_numbers(file_, coordinates, counts_);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const CheckedSize address = CheckedSize(static_cast<std::int64_t>(layout_.address)) +
                                  CheckedSize(static_cast<std::int64_t>(numbers[i])) *
                                      CheckedSize(static_cast<std::int64_t>(layout_.chunk_bytes));
      if (!address.fits())
        throw_error(ErrorKind::kCorruptData, file_.path(),
                    "an implicit index of chunks at an impossible address: {}", layout_.address);
      found[i] = {static_cast<Address>(address.value()), layout_.chunk_bytes, 0};
    }
  }

 private:
  const std::vector<std::uint64_t> counts_;
};

}  // namespace

std::unique_ptr<ChunkIndex> make_implicit_index(const FileBytes& file, ChunkedLayout layout,
                                                ChunkGrid grid, bool has_filters) {
  if (has_filters)
    throw_error(ErrorKind::kCorruptData, file.path(),
                "an implicit index of chunks with filters, whose sizes it cannot tell: address {}",
                layout.address);
  return std::make_unique<ImplicitIndex>(file, std::move(layout), std::move(grid), has_filters);
}

}  // namespace cellfeed::hdf5
