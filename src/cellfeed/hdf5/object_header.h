// Object header: the messages that describe one group, dataset or committed datatype. HDF5 File
// Format Specification 4.0, IV.A.1. Thread-safe: immutable. Lifetime: the FileBytes outlives it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cellfeed/hdf5/cursor.h"
#include "cellfeed/hdf5/file_bytes.h"

namespace cellfeed::hdf5 {

// Header Message Types of section IV.A.2.
enum class MessageType : std::uint16_t {
  kNil = 0x00,
  kDataspace = 0x01,
  kLinkInfo = 0x02,
  kDatatype = 0x03,
  kOldFillValue = 0x04,
  kFillValue = 0x05,
  kLink = 0x06,
  kExternalFiles = 0x07,
  kLayout = 0x08,
  kGroupInfo = 0x0a,
  kFilterPipeline = 0x0b,
  kAttribute = 0x0c,
  kSharedMessageTable = 0x0f,
  kContinuation = 0x10,
  kSymbolTable = 0x11,
  kAttributeInfo = 0x15,
};
// Larger types are not known.
inline constexpr std::uint16_t kLastMessageType = 0x18;

// Of the flags of a message, wherever it lies: its body says where it is.
inline constexpr std::uint8_t kSharedFlag = 0x02;

struct HeaderMessage {
  MessageType type = MessageType::kNil;
  // The body says where the message is: shared_message.h.
  bool is_shared = false;
  Cursor body;
};

class ObjectHeader {
 public:
  // Throws kCorruptData, or kUnsupported where a message that must be understood is not known.
  ObjectHeader(const FileBytes& file, Address address);
  // Each of them, in as many round trips as the one with the most continuations takes. All together
  // have no more bytes than the file. REQUIRES: no address twice.
  static std::vector<ObjectHeader> read_many(const FileBytes& file,
                                             std::span<const Address> addresses);

  Address address() const { return address_; }
  // Of its blocks.
  std::uint64_t n_bytes() const { return n_bytes_; }
  const std::vector<HeaderMessage>& messages() const { return messages_; }
  // The first of its type, or null.
  const HeaderMessage* find(MessageType type) const;

 private:
  friend class ObjectHeaderReader;
  explicit ObjectHeader(Address address) : address_(address) {}

  Address address_;
  std::uint64_t n_bytes_ = 0;
  std::vector<HeaderMessage> messages_;
};

}  // namespace cellfeed::hdf5
