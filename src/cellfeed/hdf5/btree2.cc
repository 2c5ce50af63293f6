// Version 2 B-trees: header, internal nodes and leaves, each with its checksum.
#include "cellfeed/hdf5/btree2.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "cellfeed/base/checked_size.h"
#include "cellfeed/hdf5/fetched_visits.h"
#include "cellfeed/hdf5/walk_bound.h"

namespace cellfeed::hdf5 {
namespace {

constexpr std::string_view kBtree2Header = "version 2 B-tree header";
constexpr std::string_view kInternalName = "version 2 B-tree internal node";
constexpr std::string_view kLeafName = "version 2 B-tree leaf node";
constexpr std::uint64_t kNodeFrameBytes = 10;  // signature, version, type and checksum
// Nodes of a sound tree hold several records, so depths above this hold more than a file has.
constexpr int kMaxBtree2Depth = 64;

// Bytes that hold any number up to this one.
int bytes_for(std::uint64_t most) {
  return std::max((static_cast<int>(std::bit_width(most)) + 7) / 8, 1);
}

}  // namespace

BTree2::BTree2(const FileBytes& file, Address header) : file_(&file), header_(header) {
  const auto offset_size = static_cast<std::uint64_t>(file.offset_size());
  const auto length_size = static_cast<std::uint64_t>(file.length_size());
  Cursor at(file, header, 16 + offset_size + 2 + length_size + 4, kBtree2Header);
  at.verify_checksum(at.size() - 4);
  at.expect_signature("BTHD");
  if (const int version = at.u8(); version != 0) at.fail("version {} is not known", version);
  type_ = static_cast<BTree2Type>(at.u8());
  node_bytes_ = at.u32();
  record_bytes_ = at.u16();
  root_.depth = at.u16();
  at.skip(2);
  root_.address = at.read_address();
  root_.n_records = at.u16();
  n_records_ = at.read_length();
  set_levels(at);
}

void BTree2::set_levels(Cursor& header) {
  if (record_bytes_ == 0 || node_bytes_ < kNodeFrameBytes + record_bytes_)
    header.fail("nodes of {} bytes for records of {}", node_bytes_, record_bytes_);
  if (root_.depth > kMaxBtree2Depth) header.fail("a depth of {}", root_.depth);
  const std::uint64_t in_leaf = (node_bytes_ - kNodeFrameBytes) / record_bytes_;
  n_records_bytes_ = bytes_for(in_leaf);
  levels_.push_back({in_leaf, in_leaf, 0});
  for (int depth = 1; depth <= root_.depth; ++depth) {
    const std::uint64_t pointer = pointer_bytes(depth);
    if (node_bytes_ < kNodeFrameBytes + pointer + record_bytes_)
      header.fail("nodes of {} bytes have no room for a record", node_bytes_);
    const std::uint64_t here =
        (node_bytes_ - kNodeFrameBytes - pointer) / (record_bytes_ + pointer);
    const CheckedSize below(static_cast<std::int64_t>(levels_.back().all_records));
    const CheckedSize all = CheckedSize(static_cast<std::int64_t>(here + 1)) * below +
                            CheckedSize(static_cast<std::int64_t>(here));
    if (here == 0 || !all.fits()) header.fail("a tree of impossible depth: {}", root_.depth);
    const auto all_records = static_cast<std::uint64_t>(all.value());
    levels_.push_back({here, all_records, bytes_for(all_records)});
  }
}

// Of a child pointer in a node of this depth.
std::uint64_t BTree2::pointer_bytes(int depth) const {
  return static_cast<std::uint64_t>(file_->offset_size() + n_records_bytes_ +
                                    levels_[static_cast<std::size_t>(depth - 1)].all_records_bytes);
}

void BTree2::fail(const char* what) const {
  throw_error(ErrorKind::kCorruptData, file_->path(), "damaged HDF5 file: {} at offset {}: {}",
              kBtree2Header, header_ + file_->base_address(), what);
}

void BTree2::require(BTree2Type type, std::uint64_t min_record_bytes) const {
  if (type_ != type) fail("its type is not that of its use");
  if (record_bytes_ < min_record_bytes) fail("its records are too short");
}

BTree2::ReadNode BTree2::read_node(const Node& node) const {
  const bool is_leaf = node.depth == 0;
  Cursor at(*file_, node.address, node_bytes_, is_leaf ? kLeafName : kInternalName);
  at.expect_signature(is_leaf ? "BTLF" : "BTIN");
  if (const int version = at.u8(); version != 0) at.fail("version {} is not known", version);
  if (at.u8() != static_cast<std::uint8_t>(type_)) at.fail("its type is not that of its tree");
  const Level& level = levels_[static_cast<std::size_t>(node.depth)];
  if (node.n_records > level.max_records)
    at.fail("{} records, at most {} fit", node.n_records, level.max_records);
  const std::uint64_t pointers = is_leaf ? 0 : (node.n_records + 1) * pointer_bytes(node.depth);
  at.verify_checksum(at.position() + node.n_records * record_bytes_ + pointers);
  ReadNode read{at.part(node.n_records * record_bytes_, "version 2 B-tree records"), {}};
  if (is_leaf) return read;
  const int all_bytes = levels_[static_cast<std::size_t>(node.depth - 1)].all_records_bytes;
  for (std::uint64_t i = 0; i <= node.n_records; ++i) {
    const Address address = at.read_address();
    read.children.push_back({address, at.uint(n_records_bytes_), node.depth - 1});
    at.skip(static_cast<std::uint64_t>(all_bytes));
  }
  return read;
}

std::vector<Bytes> BTree2::read_records() const {
  std::vector<Bytes> records;
  if (root_.address == kUndefinedAddress) {
    if (n_records_ != 0) fail("it has records and no root");
    return records;
  }
  WalkBound bound(*file_, "version 2 B-tree");
  std::vector<Node> nodes{root_};
  while (!nodes.empty()) {
    std::vector<AddressRange> ranges;
    for (const Node& node : nodes) ranges.push_back({node.address, node_bytes_});
    file_->fetch(ranges);
    std::vector<Node> children;
    for (const Node& node : nodes) {
      bound.visit(node.address, node_bytes_);
      ReadNode read = read_node(node);
      while (read.records.remaining() > 0) records.push_back(read.records.bytes(record_bytes_));
      children.insert(children.end(), read.children.begin(), read.children.end());
    }
    nodes = std::move(children);
  }
  if (records.size() != n_records_) fail("it has not as many records as it says");
  return records;
}

std::optional<Bytes> BTree2::find(
    const std::function<int(std::span<const std::byte>)>& compare) const {
  if (root_.address == kUndefinedAddress) return std::nullopt;
  Node node = root_;
  while (true) {
    ReadNode read = read_node(node);
    std::uint64_t low = 0;
    for (std::uint64_t high = node.n_records; low < high;) {
      const std::uint64_t middle = (low + high) / 2;
      read.records.seek(middle * record_bytes_);
      const Bytes record = read.records.bytes(record_bytes_);
      const int order = compare(record.view());
      if (order == 0) return record;
      if (order < 0)
        high = middle;
      else
        low = middle + 1;
    }
    if (node.depth == 0) return std::nullopt;
    // Depths go down to 0, so that a cycle ends.
    node = read.children[static_cast<std::size_t>(low)];
  }
}

void BTree2::find_in_node(const Sought& sought, const CompareSought& compare, const Found& found,
                          std::vector<Sought>& below) const {
  ReadNode read = read_node(sought.node);
  std::uint64_t low = 0;  // records before this one stand before all that is left to seek
  std::uint64_t last_child = ~std::uint64_t{0};
  for (std::size_t i = sought.begin; i < sought.end; ++i) {
    bool is_found = false;
    for (std::uint64_t high = sought.node.n_records; low < high && !is_found;) {
      const std::uint64_t middle = (low + high) / 2;
      read.records.seek(middle * record_bytes_);
      const Bytes record = read.records.bytes(record_bytes_);
      const int order = compare(i, record.view());
      is_found = order == 0;
      if (is_found) found(i, record);
      if (order <= 0)
        high = middle;
      else
        low = middle + 1;
    }
    if (is_found || sought.node.depth == 0) continue;
    if (low == last_child) {
      below.back().end = i + 1;
      continue;
    }
    below.push_back({read.children[static_cast<std::size_t>(low)], i, i + 1});
    last_child = low;
  }
}

void BTree2::find_many(std::size_t n_sought, const CompareSought& compare,
                       const Found& found) const {
  if (root_.address == kUndefinedAddress) return;
  std::vector<Sought> level{{root_, 0, n_sought}};
  std::vector<Sought> below;
  // Of a sound tree no node is met twice.
  WalkBound bound(*file_, "version 2 B-tree");
  while (!level.empty()) {
    below.clear();
    visit_fetched(
        *file_, std::span<const Sought>(level),
        [&](const Sought& at) { return AddressRange{at.node.address, node_bytes_}; },
        [&](const Sought& at) {
          bound.visit(at.node.address, node_bytes_);
          find_in_node(at, compare, found, below);
        });
    std::swap(level, below);
  }
}

}  // namespace cellfeed::hdf5
