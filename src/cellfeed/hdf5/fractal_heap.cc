// Fractal heaps: a doubling table of direct blocks, and objects that are managed, huge or tiny.
#include "cellfeed/hdf5/fractal_heap.h"

#include <algorithm>
#include <bit>

#include "cellfeed/hdf5/btree2.h"

namespace cellfeed::hdf5 {
namespace {

constexpr std::string_view kFractalHeapHeader = "fractal heap header";
constexpr std::string_view kDirectName = "fractal heap direct block";
constexpr std::string_view kIndirectName = "fractal heap indirect block";
constexpr std::string_view kIdName = "fractal heap ID";
constexpr std::uint8_t kChecksumFlag = 0x02;
enum IdType : std::uint8_t { kManaged = 0, kHuge = 1, kTiny = 2 };
constexpr std::uint64_t kMaxWidth = 1 << 16;
constexpr std::uint64_t kLongTinyId = 16;  // longer IDs give the length of a tiny object 12 bits

int log2_of(std::uint64_t value) { return static_cast<int>(std::bit_width(value)) - 1; }

IdType type_of(const Bytes& id) {
  return static_cast<IdType>((std::to_integer<unsigned>(id.view()[0]) >> 4) & 3);
}

}  // namespace

FractalHeap::FractalHeap(const FileBytes& file, Address header)
    : file_(&file), header_(header), bound_(file, "fractal heap") {
  const auto offset_size = static_cast<std::uint64_t>(file.offset_size());
  const auto length_size = static_cast<std::uint64_t>(file.length_size());
  read_header(Cursor(file, header, 26 + 3 * offset_size + 12 * length_size, kFractalHeapHeader));
  find_blocks();
}

void FractalHeap::fail(const char* what) const {
  throw_error(ErrorKind::kCorruptData, file_->path(), "damaged HDF5 file: {} at offset {}: {}",
              kFractalHeapHeader, header_ + file_->base_address(), what);
}

void FractalHeap::read_header(Cursor at) {
  at.expect_signature("FRHP");
  if (const int version = at.u8(); version != 0) at.fail("version {} is not known", version);
  id_bytes_ = at.u16();
  if (at.u16() != 0) at.refuse("a fractal heap with filters is not readable");
  at.verify_checksum(at.size() - 4);
  has_block_checksums_ = (at.u8() & kChecksumFlag) != 0;
  max_managed_bytes_ = at.u32();
  at.read_length();
  huge_index_ = at.read_address();
  at.read_length();
  at.read_address();
  for (int skipped = 0; skipped < 8; ++skipped) at.read_length();
  width_ = at.u16();
  start_bytes_ = at.read_length();
  max_direct_bytes_ = at.read_length();
  heap_bits_ = at.u16();
  at.skip(2);
  root_ = at.read_address();
  n_root_rows_ = at.u16();
  check_table(at);
  offset_bytes_ = (heap_bits_ + 7) / 8;
  length_bytes_ = std::min((log2_of(max_direct_bytes_) + 7) / 8,
                           static_cast<int>((std::bit_width(max_managed_bytes_) + 7) / 8));
  max_direct_rows_ =
      static_cast<std::uint64_t>(log2_of(max_direct_bytes_) - log2_of(start_bytes_) + 2);
  max_rows_ = static_cast<std::uint64_t>(
      std::max(heap_bits_ - log2_of(start_bytes_) - log2_of(width_) + 1, 0));
  if (n_root_rows_ > max_rows_) at.fail("{} rows in its root", n_root_rows_);
  if (id_bytes_ < 1) at.fail("IDs without bytes");
}

// Of the doubling table: powers of two, in order, within 64 bits.
void FractalHeap::check_table(Cursor& at) const {
  const bool is_sound = width_ > 0 && width_ <= kMaxWidth && std::has_single_bit(width_) &&
                        std::has_single_bit(start_bytes_) &&
                        std::has_single_bit(max_direct_bytes_) &&
                        start_bytes_ <= max_direct_bytes_ && max_direct_bytes_ <= 1ull << 32 &&
                        heap_bits_ <= 64 && max_managed_bytes_ > 0;
  if (!is_sound)
    at.fail("a table of width {}, blocks of {} to {} bytes, and {} bits", width_, start_bytes_,
            max_direct_bytes_, heap_bits_);
}

std::uint64_t FractalHeap::row_block_bytes(std::uint64_t row) const {
  return row == 0 ? start_bytes_ : start_bytes_ << (row - 1);
}

std::uint64_t FractalHeap::block_header_bytes() const {
  return static_cast<std::uint64_t>(5 + file_->offset_size() + offset_bytes_ +
                                    (has_block_checksums_ ? 4 : 0));
}

void FractalHeap::find_blocks() {
  if (root_ == kUndefinedAddress) return;
  if (n_root_rows_ == 0) {
    bound_.visit(root_, start_bytes_);
    blocks_.push_back({.offset = 0, .n_bytes = start_bytes_, .address = root_});
    return;
  }
  std::vector<Indirect> nodes{{root_, 0, n_root_rows_}};
  while (!nodes.empty()) {
    std::vector<AddressRange> ranges;
    for (const Indirect& node : nodes)
      ranges.push_back(
          {node.address, node.n_rows * width_ * static_cast<std::uint64_t>(file_->offset_size())});
    file_->fetch(ranges);
    std::vector<Indirect> children;
    for (const Indirect& node : nodes) {
      const auto below = read_indirect(node);
      children.insert(children.end(), below.begin(), below.end());
    }
    nodes = std::move(children);
  }
  std::sort(blocks_.begin(), blocks_.end(),
            [](const Block& a, const Block& b) { return a.offset < b.offset; });
}

std::vector<FractalHeap::Indirect> FractalHeap::read_indirect(const Indirect& node) {
  const auto offset_size = static_cast<std::uint64_t>(file_->offset_size());
  const std::uint64_t n_bytes = 5 + offset_size + static_cast<std::uint64_t>(offset_bytes_) +
                                node.n_rows * width_ * offset_size + 4;
  bound_.visit(node.address, n_bytes);
  Cursor at(*file_, node.address, n_bytes, kIndirectName);
  at.verify_checksum(n_bytes - 4);
  at.expect_signature("FHIB");
  if (const int version = at.u8(); version != 0) at.fail("version {} is not known", version);
  if (at.read_address() != header_) at.fail("it belongs to another heap");
  if (at.uint(offset_bytes_) != node.offset) at.fail("its offset is not that of its place");
  std::vector<Indirect> children;
  std::uint64_t offset = node.offset;
  for (std::uint64_t row = 0; row < node.n_rows; ++row) {
    const std::uint64_t block_bytes = row_block_bytes(row);
    const bool is_direct = row < max_direct_rows_;
    const int bits = log2_of(block_bytes) - log2_of(start_bytes_) - log2_of(width_) + 1;
    if (!is_direct && bits < 1) at.fail("an indirect block without rows");
    for (std::uint64_t column = 0; column < width_; ++column, offset += block_bytes) {
      const Address address = at.read_address();
      if (address == kUndefinedAddress) continue;
      if (!is_direct) {
        children.push_back({address, offset, static_cast<std::uint64_t>(bits)});
        continue;
      }
      bound_.visit(address, block_bytes);
      blocks_.push_back({.offset = offset, .n_bytes = block_bytes, .address = address});
    }
  }
  return children;
}

std::vector<Bytes> FractalHeap::read(std::span<const Bytes> ids) {
  std::vector<AddressRange> ranges;
  for (const Bytes& id : ids) {
    if (type_of(id) != kManaged) continue;
    const Block& block = block_of(managed_place(id));
    if (ranges.empty() || ranges.back().address != block.address)
      ranges.push_back({block.address, block.n_bytes});
  }
  file_->fetch(ranges);
  std::vector<Bytes> objects;
  WalkBound objects_bound(*file_, "list of a fractal heap's objects");
  for (const Bytes& id : ids) {
    switch (type_of(id)) {
      case kManaged:
        objects.push_back(read_managed(managed_place(id)));
        break;
      case kHuge:
        objects.push_back(read_huge(id));
        break;
      case kTiny:
        objects.push_back(read_tiny(id));
        break;
      default:
        fail("an ID of a type that is not known");
    }
    objects_bound.spend(objects.back().size());
  }
  return objects;
}

FractalHeap::Place FractalHeap::managed_place(const Bytes& id) const {
  Cursor at(*file_, id, header_, kIdName);
  at.skip(1);
  const std::uint64_t offset = at.uint(offset_bytes_);
  return {offset, at.uint(length_bytes_)};
}

FractalHeap::Block& FractalHeap::block_of(const Place& place) {
  auto after = std::upper_bound(
      blocks_.begin(), blocks_.end(), place.offset,
      [](std::uint64_t offset, const Block& block) { return offset < block.offset; });
  if (after == blocks_.begin()) fail("an ID leads outside of its blocks");
  Block& block = *--after;
  const std::uint64_t inside = place.offset - block.offset;
  if (inside < block_header_bytes() || inside > block.n_bytes ||
      place.n_bytes > block.n_bytes - inside)
    fail("an ID leads outside of its blocks");
  return block;
}

Bytes FractalHeap::read_managed(const Place& place) {
  Block& block = block_of(place);
  Cursor at(*file_, block.address, block.n_bytes, kDirectName);
  if (!block.is_checked) {
    at.expect_signature("FHDB");
    if (const int version = at.u8(); version != 0) at.fail("version {} is not known", version);
    if (at.read_address() != header_) at.fail("it belongs to another heap");
    if (at.uint(offset_bytes_) != block.offset) at.fail("its offset is not that of its place");
    if (has_block_checksums_) at.verify_checksum_inside(at.position());
    block.is_checked = true;
  }
  at.seek(place.offset - block.offset);
  return at.bytes(place.n_bytes);
}

Bytes FractalHeap::read_tiny(const Bytes& id) const {
  Cursor at(*file_, id, header_, kIdName);
  std::uint64_t n_bytes = at.u8() & 0x0f;
  if (id_bytes_ - 1 > kLongTinyId) n_bytes = n_bytes << 8 | at.u8();
  return at.bytes(n_bytes + 1);
}

Bytes FractalHeap::read_huge(const Bytes& id) {
  Cursor at(*file_, id, header_, kIdName);
  at.skip(1);
  const int room = static_cast<int>(std::min<std::uint64_t>(id_bytes_ - 1, 64));
  HugeObject object;
  if (room >= file_->offset_size() + file_->length_size()) {
    object.address = at.read_address();
    object.n_bytes = at.read_length();
  } else {
    if (!huge_objects_) read_huge_index();
    const auto found = huge_objects_->find(at.uint(std::min(room, 8)));
    if (found == huge_objects_->end()) fail("an ID names a huge object that is not there");
    object = found->second;
  }
  return Cursor(*file_, object.address, object.n_bytes, "huge object of a fractal heap")
      .bytes(object.n_bytes);
}

void FractalHeap::read_huge_index() {
  huge_objects_.emplace();
  if (huge_index_ == kUndefinedAddress) return;
  const BTree2 tree(*file_, huge_index_);
  const auto offset_size = static_cast<std::uint64_t>(file_->offset_size());
  const auto length_size = static_cast<std::uint64_t>(file_->length_size());
  tree.require(BTree2Type::kHugeObjects, offset_size + 2 * length_size);
  for (const Bytes& record : tree.read_records()) {
    Cursor at(*file_, record, huge_index_, "huge object record");
    const Address address = at.read_address();
    const std::uint64_t n_bytes = at.read_length();
    huge_objects_->insert_or_assign(at.uint(file_->length_size()), HugeObject{address, n_bytes});
  }
}

}  // namespace cellfeed::hdf5
