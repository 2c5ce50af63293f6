// Version 1 B-tree of chunks, node type 1. HDF5 File Format Specification 4.0, III.A.1.
#include <algorithm>

#include "cellfeed/base/error.h"
#include "cellfeed/hdf5/chunk_index_kinds.h"
#include "cellfeed/hdf5/walk_bound.h"

namespace cellfeed::hdf5 {
namespace {

constexpr std::string_view kChunkNodeName = "version 1 B-tree node of chunks";
constexpr std::uint8_t kChunkNode = 1;
// What a superblock usually lets a node hold; only says how much is asked for ahead.
constexpr std::uint64_t kUsualEntries = 64;
constexpr int kAboveEveryLevel = 256;  // a level has one byte

class BTree1Index final : public ChunkIndex {
 public:
  BTree1Index(const FileBytes& file, ChunkedLayout layout, ChunkGrid grid, bool has_filters)
      : ChunkIndex(file, std::move(layout), std::move(grid), has_filters) {}

 protected:
  void find(std::span<const std::uint64_t> coordinates, std::span<Entry> found) const override;

 private:
  // A node and the chunks [begin, end) that lie below it where they lie anywhere.
  struct Visit {
    Address node = 0;
    int level_above = kAboveEveryLevel;
    std::size_t begin = 0;
    std::size_t end = 0;
    // Where the chunks below it begin, and those of the next node; empty: anywhere.
    std::vector<std::uint64_t> first = {};
    std::vector<std::uint64_t> next = {};
  };

  // A key: stored bytes, filter mask, then offsets in elements, the element's own bytes last.
  std::uint64_t key_bytes() const { return 8 + 8 * (grid_.rank() + 1); }
  std::uint64_t step_bytes() const {
    return key_bytes() + static_cast<std::uint64_t>(file_.offset_size());
  }
  std::uint64_t header_bytes() const {
    return 8 + 2 * static_cast<std::uint64_t>(file_.offset_size());
  }
  int compare(std::span<const std::uint64_t> chunk, Cursor& keys, std::uint64_t i) const;
  void read_key(Cursor& keys, std::uint64_t i, std::vector<std::uint64_t>& key) const;
  void check_keys(const Visit& visit, Cursor& keys, std::uint64_t n) const;
  void visit(const Visit& visit, std::span<const std::uint64_t> coordinates, std::span<Entry> found,
             std::vector<Visit>& below, WalkBound& bound) const;
};

void BTree1Index::find(std::span<const std::uint64_t> coordinates, std::span<Entry> found) const {
  std::vector<Visit> level{{layout_.address, kAboveEveryLevel, 0, found.size()}};
  std::vector<Visit> below;
  // Of a sound tree no node is met twice.
  WalkBound bound(file_, kChunkNodeName);
  while (!level.empty()) {
    below.clear();
    visit_fetched(
        file_, std::span<const Visit>(level),
        [&](const Visit& node) {
          return AddressRange{node.node,
                              header_bytes() + kUsualEntries * step_bytes() + key_bytes()};
        },
        [&](const Visit& node) { visit(node, coordinates, found, below, bound); });
    std::swap(level, below);
  }
}

// Below 0 where the chunk stands before key i, above 0 behind it.
int BTree1Index::compare(std::span<const std::uint64_t> chunk, Cursor& keys,
                         std::uint64_t i) const {
  keys.seek(i * step_bytes() + 8);
  for (std::size_t d = 0; d < chunk.size(); ++d) {
    const std::uint64_t begin = chunk[d] * grid_.chunk_shape()[d];
    const std::uint64_t key = keys.u64();
    if (begin != key) return begin < key ? -1 : 1;
  }
  return 0;
}

// Where chunk i begins, in elements; checked, as this tree has no checksum.
void BTree1Index::read_key(Cursor& keys, std::uint64_t i, std::vector<std::uint64_t>& key) const {
  key.resize(grid_.rank());
  keys.seek(i * step_bytes() + 8);
  for (std::size_t d = 0; d < key.size(); ++d) {
    key[d] = keys.u64();
    if (key[d] % grid_.chunk_shape()[d] != 0 || key[d] >= grid_.shape()[d])
      keys.fail("key {}: no chunk begins at {} along dimension {}: shape {}, chunks of {}", i,
                key[d], d, grid_.shape()[d], grid_.chunk_shape()[d]);
  }
  if (const std::uint64_t within = keys.u64(); within != 0)
    keys.fail("key {}: a chunk begins {} bytes inside an element", i, within);
}

// A chunk whose key is damaged would be looked for in vain, and read as never written.
void BTree1Index::check_keys(const Visit& visit, Cursor& keys, std::uint64_t n) const {
  std::vector<std::uint64_t> key, last;
  for (std::uint64_t i = 0; i < n; ++i, std::swap(key, last)) {
    read_key(keys, i, key);
    if (i == 0 ? key < visit.first : key <= last)
      keys.fail("key {}: its chunk does not stand behind the one before", i);
    if (!visit.next.empty() && key >= visit.next)
      keys.fail("key {}: its chunk belongs to another node", i);
  }
}

void BTree1Index::visit(const Visit& visit, std::span<const std::uint64_t> coordinates,
                        std::span<Entry> found, std::vector<Visit>& below, WalkBound& bound) const {
  Cursor header(file_, visit.node, header_bytes(), kChunkNodeName);
  header.expect_signature("TREE");
  if (const int type = header.u8(); type != kChunkNode) header.fail("its type is {}", type);
  const int level = header.u8();
  // Levels count down to 0, so a tree with a cycle ends here.
  if (level >= visit.level_above)
    header.fail("its level is {} below one of {}", level, visit.level_above);
  const std::uint64_t n = header.u16();
  bound.visit(visit.node, header_bytes() + n * step_bytes());
  Cursor keys(file_, visit.node + header_bytes(), n * step_bytes(), kChunkNodeName);
  check_keys(visit, keys, n);
  const std::size_t rank = grid_.rank();
  std::uint64_t last_entry = n;
  std::uint64_t low = 0;  // entries before this one stand before every chunk that is left
  for (std::size_t c = visit.begin; c < visit.end; ++c) {
    const auto chunk = coordinates.subspan(c * rank, rank);
    std::uint64_t first_above = n;
    while (low < first_above) {
      const std::uint64_t middle = (low + first_above) / 2;
      if (compare(chunk, keys, middle) >= 0)
        low = middle + 1;
      else
        first_above = middle;
    }
    if (low == 0) continue;
    const std::uint64_t entry = low - 1;
    low = entry;  // the next chunk may lie below the same
    if (level == 0 && compare(chunk, keys, entry) != 0) continue;
    keys.seek(entry * step_bytes());
    const std::uint32_t n_bytes = keys.u32();
    const std::uint32_t skipped = keys.u32();
    keys.seek(entry * step_bytes() + key_bytes());
    const Address child = keys.read_address();
    if (child == kUndefinedAddress) keys.fail("child {} has no address", entry);
    if (level == 0) {
      found[c] = {child, n_bytes, skipped};
    } else if (entry == last_entry) {
      below.back().end = c + 1;
    } else {
      Visit& next = below.emplace_back(Visit{child, level, c, c + 1, {}, visit.next});
      read_key(keys, entry, next.first);
      if (entry + 1 < n) read_key(keys, entry + 1, next.next);
    }
    last_entry = entry;
  }
}

}  // namespace

std::unique_ptr<ChunkIndex> make_btree1_index(const FileBytes& file, ChunkedLayout layout,
                                              ChunkGrid grid, bool has_filters) {
  return std::make_unique<BTree1Index>(file, std::move(layout), std::move(grid), has_filters);
}

}  // namespace cellfeed::hdf5
