// Symbol tables: B-tree nodes level by level, then all symbol table nodes at once.
#include "cellfeed/hdf5/symbol_table.h"

#include "cellfeed/hdf5/local_heap.h"
#include "cellfeed/hdf5/walk_bound.h"

namespace cellfeed::hdf5 {
namespace {

constexpr std::string_view kTreeName = "version 1 B-tree node";
constexpr std::string_view kSymbolNodeName = "symbol table node";
constexpr std::uint64_t kLikelyNodeBytes = 1024;
constexpr std::uint32_t kSymbolicLink = 2;  // "Cache Type"

struct TreeNode {
  int level = 0;
  std::vector<Address> children;
};

TreeNode read_tree_node(const FileBytes& file, Address address, WalkBound& bound) {
  const auto offset_size = static_cast<std::uint64_t>(file.offset_size());
  const auto length_size = static_cast<std::uint64_t>(file.length_size());
  Cursor prefix(file, address, 8 + 2 * offset_size, kTreeName);
  prefix.expect_signature("TREE");
  if (const int type = prefix.u8(); type != 0) prefix.fail("type {} is not that of a group", type);
  TreeNode node{.level = prefix.u8(), .children = {}};
  const std::uint64_t n = prefix.u16();
  const std::uint64_t n_bytes = n * (offset_size + length_size) + length_size;
  bound.visit(address, prefix.size() + n_bytes);
  Cursor entries(file, address + prefix.size(), n_bytes, kTreeName);
  for (std::uint64_t i = 0; i < n; ++i) {
    entries.skip(length_size);
    node.children.push_back(entries.read_address());
  }
  return node;
}

// The symbol table nodes below a root.
std::vector<Address> read_tree(const FileBytes& file, Address root, WalkBound& bound) {
  std::vector<Address> nodes{root};
  int level_above = 256;
  while (true) {
    std::vector<AddressRange> ranges;
    for (const Address address : nodes) ranges.push_back({address, kLikelyNodeBytes});
    file.fetch(ranges);
    std::vector<Address> children;
    int level = 0;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const TreeNode node = read_tree_node(file, nodes[i], bound);
      if (node.level >= level_above || (i > 0 && node.level != level))
        Cursor(file, nodes[i], 0, kTreeName).fail("its level is {}", node.level);
      level = node.level;
      children.insert(children.end(), node.children.begin(), node.children.end());
    }
    if (level == 0) return children;
    level_above = level;
    nodes = std::move(children);
  }
}

Link read_entry(Cursor& node, const LocalHeap& names) {
  const std::uint64_t name_offset = node.uint(node.file().offset_size());
  Link link;
  link.name = names.text(name_offset);
  link.address = node.read_address();
  const std::uint32_t cache_type = node.u32();
  node.skip(4);
  Cursor scratch = node.part(16, "scratch-pad of a symbol table entry");
  if (cache_type == kSymbolicLink) {
    link.kind = LinkKind::kSoft;
    link.address = kUndefinedAddress;
    link.target = names.text(scratch.u32());
  }
  return link;
}

void read_symbol_node(const FileBytes& file, Address address, const LocalHeap& names,
                      WalkBound& bound, std::vector<Link>& links) {
  const auto entry_bytes = static_cast<std::uint64_t>(24 + 2 * file.offset_size());
  Cursor prefix(file, address, 8, kSymbolNodeName);
  prefix.expect_signature("SNOD");
  if (const int version = prefix.u8(); version != 1)
    prefix.fail("version {} is not known", version);
  prefix.skip(1);
  const std::uint64_t n = prefix.u16();
  bound.visit(address, 8 + n * entry_bytes);
  Cursor entries(file, address + 8, n * entry_bytes, kSymbolNodeName);
  for (std::uint64_t i = 0; i < n; ++i) {
    links.push_back(read_entry(entries, names));
    bound.spend(links.back().name.size());
  }
}

}  // namespace

std::vector<Link> read_symbol_table(Cursor message) {
  const FileBytes& file = message.file();
  const Address tree = message.read_address();
  const Address heap = message.read_address();
  const AddressRange first[] = {{tree, kLikelyNodeBytes}, {heap, local_heap_header_bytes(file)}};
  file.fetch(first);
  const LocalHeap names(file, heap);
  file.fetch(std::vector<AddressRange>{names.data_range()});
  WalkBound bound(file, "symbol table");
  const std::vector<Address> nodes = read_tree(file, tree, bound);
  std::vector<AddressRange> ranges{names.data_range()};
  for (const Address address : nodes) ranges.push_back({address, kLikelyNodeBytes});
  file.fetch(ranges);
  std::vector<Link> links;
  for (const Address address : nodes) read_symbol_node(file, address, names, bound, links);
  return links;
}

void fetch_symbol_tables(const FileBytes& file, std::span<const Cursor> messages) {
  struct Table {
    Address tree;
    Address heap;
  };
  std::vector<Table> tables;
  std::vector<AddressRange> ranges;
  for (Cursor message : messages) {
    if (message.size() < 2 * static_cast<std::size_t>(file.offset_size())) continue;
    const Address tree = message.read_address();
    tables.push_back({tree, message.read_address()});
    ranges.push_back({tree, kLikelyNodeBytes});
    ranges.push_back({tables.back().heap, local_heap_header_bytes(file)});
  }
  file.fetch(ranges);
  ranges.clear();
  for (const Table& table : tables) try {
      WalkBound bound(file, "symbol table");
      ranges.push_back(LocalHeap(file, table.heap).data_range());
      for (const Address child : read_tree_node(file, table.tree, bound).children)
        ranges.push_back({child, kLikelyNodeBytes});
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kCorruptData) throw;
    }
  file.fetch(ranges);
}

}  // namespace cellfeed::hdf5
