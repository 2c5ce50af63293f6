// ChunkIndex: object header -> layout message -> version 1 B-tree, every step checked against the
// file's size.
#include "cellfeed/format/h5ad/chunk_index.h"

#include <cstring>
#include <utility>
#include <vector>

#include "cellfeed/base/error.h"

namespace cellfeed::format::h5ad {
namespace {

constexpr std::uint64_t kUndefined = ~std::uint64_t{0};
constexpr int kLayoutMessage = 0x0008;
constexpr int kContinuationMessage = 0x0010;
constexpr std::size_t kMaxHeaderBlocks = 1024;  // continuations; more would be a cycle
// A node of the B-tree: header, then keys and children in turn. A key is size, mask, and two
// offsets (elements, and zero for the bytes of an element).
constexpr std::uint64_t kNodeHeaderBytes = 24;
constexpr std::uint64_t kKeyBytes = 24;
constexpr std::uint64_t kStepBytes = kKeyBytes + 8;

using Bytes = std::span<const std::byte>;

template <typename T>
T read_at(Bytes bytes, std::uint64_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

bool holds(Bytes bytes, std::uint64_t at, std::uint64_t length) {
  return at <= bytes.size() && length <= bytes.size() - at;
}

bool has_magic(Bytes bytes, std::uint64_t at, const char* magic) {
  return holds(bytes, at, 4) && std::memcmp(bytes.data() + at, magic, 4) == 0;
}

struct Block {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// How messages of an object header lie in its blocks.
struct HeaderFormat {
  bool is_v2 = false;
  bool has_creation_order = false;
  std::uint64_t message_header_bytes() const { return is_v2 ? (has_creation_order ? 6 : 4) : 8; }
};

std::optional<Block> first_block(Bytes file, std::uint64_t at, HeaderFormat& format) {
  if (has_magic(file, at, "OHDR")) {
    if (!holds(file, at, 6) || read_at<std::uint8_t>(file, at + 4) != 2) return std::nullopt;
    const auto flags = read_at<std::uint8_t>(file, at + 5);
    format = {.is_v2 = true, .has_creation_order = (flags & 0x04) != 0};
    at += 6 + ((flags & 0x20) != 0 ? 16u : 0u) + ((flags & 0x10) != 0 ? 4u : 0u);
    const std::uint64_t width = std::uint64_t{1} << (flags & 3);
    if (!holds(file, at, width)) return std::nullopt;
    std::uint64_t size = 0;
    std::memcpy(&size, file.data() + at, width);
    if (!holds(file, at + width, size)) return std::nullopt;
    return Block{at + width, at + width + size};
  }
  if (!holds(file, at, 16) || read_at<std::uint8_t>(file, at) != 1) return std::nullopt;
  const auto size = read_at<std::uint32_t>(file, at + 8);
  if (!holds(file, at + 16, size)) return std::nullopt;
  return Block{at + 16, at + 16 + size};
}

// The block a continuation message points to, without its signature and checksum.
std::optional<Block> continued_block(Bytes file, std::uint64_t base, std::uint64_t message,
                                     bool is_v2) {
  const std::uint64_t begin = read_at<std::uint64_t>(file, message) + base;
  const auto length = read_at<std::uint64_t>(file, message + 8);
  if (!holds(file, begin, length)) return std::nullopt;
  if (!is_v2) return Block{begin, begin + length};
  if (length < 8 || !has_magic(file, begin, "OCHK")) return std::nullopt;
  return Block{begin + 4, begin + length - 4};
}

// The root of the B-tree, from a layout message of version 3 with chunks and one dimension (beside
// the element's).
std::optional<std::uint64_t> btree_root(Bytes file, std::uint64_t message, std::uint64_t size) {
  constexpr std::uint8_t kVersion = 3, kChunked = 2, kDimensions = 2;
  if (size < 11 || read_at<std::uint8_t>(file, message) != kVersion ||
      read_at<std::uint8_t>(file, message + 1) != kChunked ||
      read_at<std::uint8_t>(file, message + 2) != kDimensions)
    return std::nullopt;
  return read_at<std::uint64_t>(file, message + 3);
}

std::optional<std::uint64_t> find_root(Bytes file, std::uint64_t base, std::uint64_t header) {
  HeaderFormat format;
  const auto first = first_block(file, header, format);
  if (!first) return std::nullopt;
  std::vector<Block> blocks{*first};
  for (std::size_t b = 0; b < blocks.size() && b < kMaxHeaderBlocks; ++b) {
    const Block block = blocks[b];
    const std::uint64_t header_bytes = format.message_header_bytes();
    for (std::uint64_t at = block.begin; at + header_bytes <= block.end;) {
      const int type =
          format.is_v2 ? read_at<std::uint8_t>(file, at) : read_at<std::uint16_t>(file, at);
      const std::uint64_t size = read_at<std::uint16_t>(file, at + (format.is_v2 ? 1 : 2));
      const std::uint64_t message = at + header_bytes;
      if (message + size > block.end) break;
      if (type == kLayoutMessage) return btree_root(file, message, size);
      if (type == kContinuationMessage && size >= 16)
        if (const auto next = continued_block(file, base, message, format.is_v2))
          blocks.push_back(*next);
      at = message + size;
    }
  }
  return std::nullopt;
}

// Offsets and lengths of eight bytes each, as every writer in use makes them.
bool has_wide_addresses(Bytes file, std::uint64_t base) {
  if (!holds(file, base, 16)) return false;
  const auto version = read_at<std::uint8_t>(file, base + 8);
  const std::uint64_t at = base + (version < 2 ? 13 : 9);
  return version <= 3 && read_at<std::uint8_t>(file, at) == 8 &&
         read_at<std::uint8_t>(file, at + 1) == 8;
}

}  // namespace

ChunkIndex::ChunkIndex(Bytes file, std::uint64_t base, std::uint64_t root, std::string path)
    : file_(file), base_(base), root_(root), path_(std::move(path)) {}

std::optional<ChunkIndex> ChunkIndex::open(Bytes file, std::uint64_t base,
                                           std::uint64_t header_address, std::string path) {
  if (!has_wide_addresses(file, base)) return std::nullopt;
  const auto root = find_root(file, base, header_address + base);
  if (!root) return std::nullopt;
  return ChunkIndex(file, base, *root, std::move(path));
}

std::optional<ChunkPlace> ChunkIndex::find(std::uint64_t first_element) const {
  if (root_ == kUndefined) return std::nullopt;
  std::uint64_t address = root_ + base_;
  int level_above = 256;
  while (true) {
    constexpr std::uint8_t kChunkNode = 1;
    if (!has_magic(file_, address, "TREE") || !holds(file_, address, kNodeHeaderBytes) ||
        read_at<std::uint8_t>(file_, address + 4) != kChunkNode)
      throw_error(ErrorKind::kCorruptData, path_, "not a node of a chunk index: offset {}",
                  address);
    const int level = read_at<std::uint8_t>(file_, address + 5);
    const std::uint64_t n = read_at<std::uint16_t>(file_, address + 6);
    // Levels count down to 0, so a tree with a cycle ends here.
    if (level >= level_above ||
        !holds(file_, address, kNodeHeaderBytes + n * kStepBytes + kKeyBytes))
      throw_error(ErrorKind::kCorruptData, path_,
                  "a damaged node of a chunk index: offset {}, level {}, entries {}", address,
                  level, n);
    level_above = level;
    const std::uint64_t keys = address + kNodeHeaderBytes;
    const auto start_of = [&](std::uint64_t i) {
      return read_at<std::uint64_t>(file_, keys + i * kStepBytes + 8);
    };
    std::uint64_t low = 0;
    for (std::uint64_t high = n; low < high;) {
      const std::uint64_t middle = (low + high) / 2;
      if (start_of(middle) <= first_element)
        low = middle + 1;
      else
        high = middle;
    }
    if (low == 0) return std::nullopt;
    const std::uint64_t key = keys + (low - 1) * kStepBytes;
    const std::uint64_t child = read_at<std::uint64_t>(file_, key + kKeyBytes) + base_;
    if (level > 0) {
      address = child;
      continue;
    }
    if (start_of(low - 1) != first_element) return std::nullopt;
    return ChunkPlace{.offset = child,
                      .size = read_at<std::uint32_t>(file_, key),
                      .skipped = read_at<std::uint32_t>(file_, key + 4)};
  }
}

}  // namespace cellfeed::format::h5ad
