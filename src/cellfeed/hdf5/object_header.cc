// Object headers, versions 1 and 2, block by block.
#include "cellfeed/hdf5/object_header.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>

#include "cellfeed/hdf5/walk_bound.h"

namespace cellfeed::hdf5 {
namespace {

constexpr std::string_view kObjectHeader = "object header";
constexpr std::string_view kContinuationName = "object header continuation block";
constexpr std::uint64_t kLikelyBytes = 512;  // of a header's first block
constexpr std::uint64_t kPrefixBytes = 16;   // enough to tell the version and the size of either
constexpr std::uint8_t kMustBeKnownFlag = 0x80;
constexpr std::size_t kMaxMessages = 1 << 20;

}  // namespace

// Reads one header, a block at a time, so that the blocks of many can be fetched together.
class ObjectHeaderReader {
 public:
  ObjectHeaderReader(const FileBytes& file, Address address, WalkBound& bound)
      : file_(file), bound_(bound), header_(address) {
    pending_.push_back({address, kLikelyBytes});
  }

  // What is to be fetched before read_pending; empty when all was read.
  const std::vector<AddressRange>& pending() const { return pending_; }
  void read_pending() {
    const std::vector<AddressRange> blocks = std::exchange(pending_, {});
    for (const AddressRange& block : blocks) {
      if (is_first_)
        read_first_block(block.address);
      else
        read_continuation(block);
      is_first_ = false;
    }
  }
  ObjectHeader take() { return std::move(header_); }

 private:
  void read_first_block(Address address);
  void read_version_1(Address address);
  void read_version_2(Address address);
  void read_continuation(const AddressRange& block);
  void read_messages(Cursor block);
  void add_continuation(Cursor message);
  void visit(Address address, std::uint64_t n_bytes) {
    bound_.visit(address, n_bytes);
    header_.n_bytes_ += n_bytes;
  }

  const FileBytes& file_;
  WalkBound& bound_;
  ObjectHeader header_;
  std::vector<AddressRange> pending_;
  bool is_first_ = true;
  bool is_version_2_ = false;
  bool has_creation_order_ = false;
};

void ObjectHeaderReader::read_first_block(Address address) {
  Cursor prefix(file_, address, 4, kObjectHeader);
  is_version_2_ = std::memcmp(prefix.bytes(4).view().data(), "OHDR", 4) == 0;
  if (is_version_2_)
    read_version_2(address);
  else
    read_version_1(address);
}

void ObjectHeaderReader::read_version_1(Address address) {
  Cursor prefix(file_, address, kPrefixBytes, kObjectHeader);
  if (const int version = prefix.u8(); version != 1)
    prefix.fail("version {} is not known", version);
  prefix.skip(7);
  const std::uint32_t n_bytes = prefix.u32();
  visit(address, kPrefixBytes + n_bytes);
  Cursor block(file_, address, kPrefixBytes + n_bytes, kObjectHeader);
  block.skip(kPrefixBytes);
  read_messages(block.part(n_bytes, kObjectHeader));
}

void ObjectHeaderReader::read_version_2(Address address) {
  Cursor prefix(file_, address, 6, kObjectHeader);
  prefix.skip(4);
  if (const int version = prefix.u8(); version != 2)
    prefix.fail("version {} is not known", version);
  const auto flags = prefix.u8();
  has_creation_order_ = (flags & 0x04) != 0;
  const std::uint64_t skipped = ((flags & 0x20) != 0 ? 16u : 0u) + ((flags & 0x10) != 0 ? 4u : 0u);
  const int width = 1 << (flags & 0x03);
  const std::uint64_t fixed = 6 + skipped + static_cast<std::uint64_t>(width);
  Cursor size_field(file_, address, fixed, kObjectHeader);
  size_field.skip(6 + skipped);
  const std::uint64_t n_bytes = size_field.uint(width);
  if (n_bytes > file_.size()) size_field.fail("its first block has {} bytes", n_bytes);
  visit(address, fixed + n_bytes + 4);
  Cursor block(file_, address, fixed + n_bytes + 4, kObjectHeader);
  block.verify_checksum(fixed + n_bytes);
  block.skip(fixed);
  read_messages(block.part(n_bytes, kObjectHeader));
}

void ObjectHeaderReader::read_continuation(const AddressRange& range) {
  Cursor block(file_, range.address, range.n_bytes, kContinuationName);
  if (!is_version_2_) return read_messages(std::move(block));
  if (range.n_bytes < 8) block.fail("it has {} bytes", range.n_bytes);
  block.expect_signature("OCHK");
  block.verify_checksum(range.n_bytes - 4);
  read_messages(block.part(range.n_bytes - 8, kContinuationName));
}

void ObjectHeaderReader::read_messages(Cursor block) {
  const std::size_t prefix_bytes = is_version_2_ ? (has_creation_order_ ? 6 : 4) : 8;
  // What is shorter than a prefix is a gap.
  while (block.remaining() >= prefix_bytes) {
    const std::uint16_t type = is_version_2_ ? block.u8() : block.u16();
    const std::uint16_t n_bytes = block.u16();
    const std::uint8_t flags = block.u8();
    block.skip(prefix_bytes - (is_version_2_ ? 4 : 5));
    Cursor body = block.part(n_bytes, "header message");
    if (type == static_cast<std::uint16_t>(MessageType::kNil)) continue;
    if (type == static_cast<std::uint16_t>(MessageType::kContinuation)) {
      add_continuation(std::move(body));
      continue;
    }
    if (type > kLastMessageType) {
      if ((flags & kMustBeKnownFlag) != 0)
        body.refuse("message type {} is not known, and says that it must be", type);
      continue;
    }
    if (header_.messages_.size() >= kMaxMessages) block.fail("too many messages");
    header_.messages_.push_back(
        {static_cast<MessageType>(type), (flags & kSharedFlag) != 0, std::move(body)});
  }
}

void ObjectHeaderReader::add_continuation(Cursor message) {
  const Address address = message.read_address();
  const std::uint64_t n_bytes = message.read_length();
  visit(address, n_bytes);
  pending_.push_back({address, n_bytes});
}

std::vector<ObjectHeader> ObjectHeader::read_many(const FileBytes& file,
                                                  std::span<const Address> addresses) {
  WalkBound bound(file, kObjectHeader);
  std::vector<std::unique_ptr<ObjectHeaderReader>> readers;
  for (const Address address : addresses)
    readers.push_back(std::make_unique<ObjectHeaderReader>(file, address, bound));
  while (true) {
    std::vector<AddressRange> ranges;
    for (const auto& reader : readers)
      ranges.insert(ranges.end(), reader->pending().begin(), reader->pending().end());
    if (ranges.empty()) break;
    file.fetch(ranges);
    for (const auto& reader : readers) reader->read_pending();
  }
  std::vector<ObjectHeader> headers;
  for (const auto& reader : readers) headers.push_back(reader->take());
  return headers;
}

ObjectHeader::ObjectHeader(const FileBytes& file, Address address) : address_(address) {
  WalkBound bound(file, kObjectHeader);
  ObjectHeaderReader reader(file, address, bound);
  while (!reader.pending().empty()) {
    file.fetch(reader.pending());
    reader.read_pending();
  }
  *this = reader.take();
}

const HeaderMessage* ObjectHeader::find(MessageType type) const {
  const auto found =
      std::find_if(messages_.begin(), messages_.end(),
                   [&](const HeaderMessage& message) { return message.type == type; });
  return found == messages_.end() ? nullptr : &*found;
}

}  // namespace cellfeed::hdf5
