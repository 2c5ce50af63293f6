// Data Layout message, versions 1 to 5.
#include "cellfeed/hdf5/layout_message.h"

#include <algorithm>
#include <bit>

#include "cellfeed/base/checked_size.h"
#include "cellfeed/hdf5/dataspace_message.h"

namespace cellfeed::hdf5 {
namespace {

enum LayoutClass : std::uint8_t { kCompact = 0, kContiguous = 1, kChunked = 2, kVirtual = 3 };
// "Chunked Storage Property: flags".
constexpr std::uint8_t kEdgeChunksUnfiltered = 0x01;
constexpr std::uint8_t kFilteredSingleChunk = 0x02;

// Takes the last of the stored dimensions for the element's bytes, and checks that a chunk has some
// bytes.
void set_chunk_shape(ChunkedLayout& layout, std::vector<std::uint64_t> dimensions, Cursor& at) {
  if (dimensions.size() < 2) at.fail("a chunk without a dimension");
  layout.element_bytes = dimensions.back();
  dimensions.pop_back();
  CheckedSize n_bytes(static_cast<std::int64_t>(layout.element_bytes));
  for (const std::uint64_t length : dimensions) {
    if (length == 0) at.fail("a chunk with a dimension of length 0");
    n_bytes = n_bytes * CheckedSize(static_cast<std::int64_t>(length));
  }
  if (layout.element_bytes == 0 || !n_bytes.fits()) at.fail("a chunk of impossible size");
  layout.chunk_bytes = static_cast<std::uint64_t>(n_bytes.value());
  layout.chunk_shape = std::move(dimensions);
}

int checked_rank(int rank, int most, Cursor& at) {
  if (rank > most) at.fail("{} dimensions, at most {} are legal", rank, most);
  return rank;
}

std::vector<std::uint64_t> read_dimensions(Cursor& message, int rank, int n_bytes) {
  std::vector<std::uint64_t> dimensions;
  for (int i = 0; i < rank; ++i) dimensions.push_back(message.uint(n_bytes));
  return dimensions;
}

Layout read_version_1(Cursor& message) {
  const int rank = checked_rank(message.u8(), kMaxDimensions + 1, message);
  const auto layout_class = message.u8();
  message.skip(5);
  const Address address = layout_class == kCompact ? kUndefinedAddress : message.read_address();
  auto dimensions = read_dimensions(message, rank, 4);
  switch (layout_class) {
    case kCompact: {
      const std::uint32_t n_bytes = message.u32();
      return CompactLayout{message.bytes(n_bytes)};
    }
    case kContiguous:
      return ContiguousLayout{address, std::nullopt};
    case kChunked: {
      ChunkedLayout layout;
      layout.version = 1;
      layout.address = address;
      set_chunk_shape(layout, std::move(dimensions), message);
      return layout;
    }
    default:
      message.fail("layout class {} is not known", layout_class);
  }
}

ChunkedLayout read_chunked_version_3(Cursor& message) {
  ChunkedLayout layout;
  layout.version = 3;
  const int rank = checked_rank(message.u8(), kMaxDimensions + 1, message);
  layout.address = message.read_address();
  set_chunk_shape(layout, read_dimensions(message, rank, 4), message);
  return layout;
}

void read_index_parameters(Cursor& message, std::uint8_t flags, ChunkedLayout& layout) {
  ChunkIndexParameters& parameters = layout.parameters;
  switch (layout.index) {
    case ChunkIndexKind::kSingleChunk:
      if ((flags & kFilteredSingleChunk) != 0) {
        const std::uint64_t n_bytes = message.read_length();
        layout.single_chunk = {.n_bytes = n_bytes, .filter_mask = message.u32()};
      }
      return;
    case ChunkIndexKind::kFixedArray:
      parameters.page_bits = message.u8();
      return;
    case ChunkIndexKind::kExtensibleArray:
      parameters.max_bits = message.u8();
      parameters.index_block_elements = message.u8();
      parameters.min_data_block_pointers = message.u8();
      parameters.min_data_block_elements = message.u8();
      parameters.page_bits = message.u8();
      return;
    case ChunkIndexKind::kBtree2:
      parameters.node_bytes = message.u32();
      message.skip(2);
      return;
    default:
      return;
  }
}

ChunkedLayout read_chunked_version_4(Cursor& message, int version) {
  ChunkedLayout layout;
  layout.version = version;
  const auto flags = message.u8();
  layout.edge_chunks_are_unfiltered = (flags & kEdgeChunksUnfiltered) != 0;
  const int rank = checked_rank(message.u8(), kMaxDimensions + 1, message);
  const int n_bytes = message.u8();
  if (n_bytes < 1 || n_bytes > 8) message.fail("dimensions of {} bytes each", n_bytes);
  set_chunk_shape(layout, read_dimensions(message, rank, n_bytes), message);
  // Version 4 gives a filtered chunk one byte more than its unfiltered size takes.
  const int bits = static_cast<int>(std::bit_width(layout.chunk_bytes)) - 1;
  layout.filtered_size_bytes =
      version == 4 ? std::min(1 + (bits + 8) / 8, 8) : message.file().length_size();
  const auto kind = message.u8();
  if (kind < 1 || kind > 5) message.fail("chunk indexing type {} is not known", kind);
  layout.index = static_cast<ChunkIndexKind>(kind);
  read_index_parameters(message, flags, layout);
  layout.address = message.read_address();
  return layout;
}

Layout read_version_3(Cursor& message, int version) {
  const auto layout_class = message.u8();
  switch (layout_class) {
    case kCompact: {
      const std::uint16_t n_bytes = message.u16();
      return CompactLayout{message.bytes(n_bytes)};
    }
    case kContiguous: {
      const Address address = message.read_address();
      return ContiguousLayout{address, message.read_length()};
    }
    case kChunked:
      if (version == 3) return read_chunked_version_3(message);
      return read_chunked_version_4(message, version);
    case kVirtual:
      if (version >= 4) return VirtualLayout{};
      [[fallthrough]];
    default:
      message.fail("layout class {} is not known", layout_class);
  }
}

}  // namespace

Layout read_layout_message(Cursor message) {
  const int version = message.u8();
  if (version < 1) message.fail("version {} is not known", version);
  if (version > 5) message.refuse("version {} is not readable", version);
  return version < 3 ? read_version_1(message) : read_version_3(message, version);
}

}  // namespace cellfeed::hdf5
