// Attributes, compact and dense.
#include "cellfeed/hdf5/object_attributes.h"

#include <algorithm>

#include "cellfeed/hdf5/btree2.h"
#include "cellfeed/hdf5/fractal_heap.h"
#include "cellfeed/hdf5/walk_bound.h"

namespace cellfeed::hdf5 {
namespace {

constexpr std::uint64_t kRecordTailBytes = 9;  // flags, creation order and hash behind the heap ID

struct DenseAttributes {
  Address heap = kUndefinedAddress;
  Address names = kUndefinedAddress;
};

DenseAttributes read_attribute_info(Cursor message) {
  if (const int version = message.u8(); version != 0)
    message.fail("version {} of an attribute info message is not known", version);
  if ((message.u8() & 0x01) != 0) message.skip(2);  // the largest creation order
  DenseAttributes dense;
  dense.heap = message.read_address();
  dense.names = message.read_address();
  return dense;
}

void append_dense(const FileBytes& file, const DenseAttributes& dense, const SharedMessages& shared,
                  std::vector<Attribute>& attributes) {
  const AddressRange headers[] = {{dense.heap, 256}, {dense.names, 64}};
  file.fetch(headers);
  FractalHeap heap(file, dense.heap);
  const BTree2 names(file, dense.names);
  const auto id_bytes = static_cast<std::size_t>(heap.id_bytes());
  names.require(BTree2Type::kAttributeNames, heap.id_bytes() + kRecordTailBytes);
  std::vector<Bytes> ids;
  std::vector<Bytes> messages;
  for (const Bytes& record : names.read_records()) {
    const Bytes id = record.part(0, id_bytes);
    if ((std::to_integer<unsigned>(record.view()[id_bytes]) & kSharedFlag) != 0)
      messages.push_back(shared.heap_object(MessageType::kAttribute, id));
    else
      ids.push_back(id);
  }
  for (const Bytes& object : heap.read(ids)) messages.push_back(object);
  for (const Bytes& message : messages)
    attributes.push_back(read_attribute_message(
        Cursor(file, message, dense.heap, "attribute in dense storage"), shared));
}

}  // namespace

std::vector<Attribute> read_object_attributes(const FileBytes& file, const ObjectHeader& header,
                                              const SharedMessages& shared) {
  std::vector<Attribute> attributes;
  WalkBound bound(file, "list of attributes");
  for (const HeaderMessage& message : header.messages()) {
    if (message.type != MessageType::kAttribute) continue;
    const Cursor body = shared.resolve(message);
    bound.spend(body.size());
    attributes.push_back(read_attribute_message(body, shared));
  }
  if (const auto* info = header.find(MessageType::kAttributeInfo)) {
    const DenseAttributes dense = read_attribute_info(info->body);
    if (dense.heap != kUndefinedAddress) append_dense(file, dense, shared, attributes);
  }
  std::sort(attributes.begin(), attributes.end(),
            [](const Attribute& a, const Attribute& b) { return a.name < b.name; });
  return attributes;
}

}  // namespace cellfeed::hdf5
