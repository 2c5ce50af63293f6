// Shared messages: references of versions 1 to 3, and the shared message table.
#include "cellfeed/hdf5/shared_message.h"

#include <array>
#include <mutex>

namespace cellfeed::hdf5 {
namespace {

constexpr std::string_view kTableName = "shared message table";
constexpr int kMaxIndexes = 8;
constexpr std::uint64_t kHeapIdBytes = 8;
constexpr std::uint8_t kInHeap = 1;  // "Type" of a reference of version 3

}  // namespace

SharedMessages::SharedMessages(const FileBytes& file, Address extension)
    : file_(file), bound_(file, "set of shared messages") {
  if (extension == kUndefinedAddress) return;
  const ObjectHeader header(file, extension);
  if (const auto* table = header.find(MessageType::kSharedMessageTable)) read_table(table->body);
}

void SharedMessages::read_table(Cursor message) {
  if (const int version = message.u8(); version != 0)
    message.fail("version {} of a shared message table is not known", version);
  const Address address = message.read_address();
  const int n_indexes = message.u8();
  if (n_indexes > kMaxIndexes) message.fail("{} indexes of shared messages", n_indexes);
  const auto index_bytes = static_cast<std::uint64_t>(14 + 2 * file_.offset_size());
  const std::uint64_t n_bytes = 4 + static_cast<std::uint64_t>(n_indexes) * index_bytes;
  Cursor at(file_, address, n_bytes + 4, kTableName);
  at.verify_checksum(n_bytes);
  at.expect_signature("SMTB");
  for (int i = 0; i < n_indexes; ++i) {
    Index index;
    if (const int version = at.u8(); version != 0) at.fail("version {} is not known", version);
    at.skip(1);
    index.message_types = at.u16();
    at.skip(4 + 2 + 2 + 2);
    at.read_address();
    index.heap = at.read_address();
    indexes_.push_back(index);
  }
}

Bytes SharedMessages::heap_object(MessageType type, const Bytes& id) const {
  const std::scoped_lock lock(mutex_);
  for (const Index& index : indexes_) {
    if ((index.message_types >> static_cast<int>(type) & 1) == 0) continue;
    auto& heap = heaps_[index.heap];
    if (!heap) heap = std::make_unique<FractalHeap>(file_, index.heap);
    if (heap->id_bytes() == kHeapIdBytes) return heap->read(std::array{id}).front();
  }
  throw_error(ErrorKind::kCorruptData, file_.path(),
              "damaged HDF5 file: a message is shared, and there is no heap of its type");
}

Cursor SharedMessages::committed(MessageType type, Address address) const {
  const std::scoped_lock lock(mutex_);
  const auto key = std::pair(address, type);
  if (const auto known = committed_.find(key); known != committed_.end()) return known->second;
  const ObjectHeader header(file_, address);
  bound_.spend(header.n_bytes());
  const HeaderMessage* message = header.find(type);
  if (message == nullptr || message->is_shared)
    Cursor(file_, address, 0, "object header").fail("it has no message that others may share");
  return committed_.emplace(key, message->body).first->second;
}

Cursor SharedMessages::resolve(MessageType type, Cursor reference) const {
  const int version = reference.u8();
  if (version < 1 || version > 3)
    reference.fail("version {} of a shared message is not known", version);
  const auto where = reference.u8();
  if (version == 1) reference.skip(6);
  if (version == 3 && where == kInHeap) {
    const Bytes id = reference.bytes(kHeapIdBytes);
    return Cursor(file_, heap_object(type, id), reference.address(), "shared message");
  }
  return committed(type, reference.read_address());
}

}  // namespace cellfeed::hdf5
