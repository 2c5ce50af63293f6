// Shared messages: a header message that lies in another object's header or in the file's heap of
// shared messages. HDF5 File Format Specification 4.0, IV.A.2 ("Shared Message") and IV.A.2.p.
// Thread-safe. Lifetime: the FileBytes outlives it.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "cellfeed/base/fork_safe_mutex.h"
#include "cellfeed/hdf5/cursor.h"
#include "cellfeed/hdf5/fractal_heap.h"
#include "cellfeed/hdf5/object_header.h"
#include "cellfeed/hdf5/walk_bound.h"

namespace cellfeed::hdf5 {

class SharedMessages {
 public:
  // extension: the superblock's; kUndefinedAddress for none. Throws kCorruptData.
  SharedMessages(const FileBytes& file, Address extension);

  // The message itself, wherever it lies. Throws kCorruptData, also where it is shared again.
  Cursor resolve(const HeaderMessage& message) const {
    return message.is_shared ? resolve(message.type, message.body) : message.body;
  }
  Cursor resolve(MessageType type, Cursor reference) const;
  // An object of the heap that keeps messages of this type, by its ID of eight bytes.
  Bytes heap_object(MessageType type, const Bytes& id) const;

 private:
  struct Index {
    std::uint16_t message_types = 0;  // a bit a type
    Address heap = kUndefinedAddress;
  };
  void read_table(Cursor message);
  Cursor committed(MessageType type, Address address) const;

  const FileBytes& file_;
  std::vector<Index> indexes_;

  mutable ForkSafeMutex mutex_;  // guards what follows; what is shared once is met often
  mutable WalkBound bound_;
  mutable std::map<std::pair<Address, MessageType>, Cursor> committed_;
  mutable std::map<Address, std::unique_ptr<FractalHeap>> heaps_;
};

}  // namespace cellfeed::hdf5
