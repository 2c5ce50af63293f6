// Links of a group: compact, dense, or of a symbol table.
#include "cellfeed/hdf5/group_links.h"

#include <algorithm>

#include "cellfeed/hdf5/btree2.h"
#include "cellfeed/hdf5/fractal_heap.h"
#include "cellfeed/hdf5/symbol_table.h"

namespace cellfeed::hdf5 {
namespace {

constexpr std::uint64_t kHashBytes = 4;  // before the heap ID of a record

// The addresses of a Link Info message.
struct DenseLinks {
  Address heap = kUndefinedAddress;
  Address names = kUndefinedAddress;
};

DenseLinks read_link_info(Cursor message) {
  if (const int version = message.u8(); version != 0)
    message.fail("version {} of a link info message is not known", version);
  if ((message.u8() & 0x01) != 0) message.skip(8);  // the largest creation order
  DenseLinks dense;
  dense.heap = message.read_address();
  dense.names = message.read_address();
  return dense;
}

void append_dense_links(const FileBytes& file, const DenseLinks& dense, std::vector<Link>& links) {
  const AddressRange headers[] = {{dense.heap, 256}, {dense.names, 64}};
  file.fetch(headers);
  FractalHeap heap(file, dense.heap);
  const BTree2 names(file, dense.names);
  names.require(BTree2Type::kLinkNames, kHashBytes + heap.id_bytes());
  std::vector<Bytes> ids;
  for (const Bytes& record : names.read_records())
    ids.push_back(record.part(kHashBytes, static_cast<std::size_t>(heap.id_bytes())));
  for (const Bytes& object : heap.read(ids))
    links.push_back(read_link_message(Cursor(file, object, dense.heap, "link in dense storage")));
}

void sort_links(const FileBytes& file, std::vector<Link>& links) {
  std::sort(links.begin(), links.end(),
            [](const Link& a, const Link& b) { return a.name < b.name; });
  const auto twin = std::adjacent_find(
      links.begin(), links.end(), [](const Link& a, const Link& b) { return a.name == b.name; });
  if (twin != links.end())
    throw_error(ErrorKind::kCorruptData, file.path(),
                "damaged HDF5 file: a group has two members of one name: '{}'", twin->name);
}

}  // namespace

bool is_group(const ObjectHeader& header) {
  return header.find(MessageType::kSymbolTable) != nullptr ||
         header.find(MessageType::kLinkInfo) != nullptr ||
         header.find(MessageType::kGroupInfo) != nullptr;
}

std::vector<Link> read_group_links(const FileBytes& file, const ObjectHeader& header) {
  std::vector<Link> links;
  if (const auto* table = header.find(MessageType::kSymbolTable))
    links = read_symbol_table(table->body);
  for (const HeaderMessage& message : header.messages())
    if (message.type == MessageType::kLink) links.push_back(read_link_message(message.body));
  if (const auto* info = header.find(MessageType::kLinkInfo)) {
    const DenseLinks dense = read_link_info(info->body);
    if (dense.heap != kUndefinedAddress) append_dense_links(file, dense, links);
  }
  sort_links(file, links);
  return links;
}

void fetch_group_links(const FileBytes& file, std::span<const ObjectHeader* const> headers) {
  std::vector<Cursor> tables;
  for (const ObjectHeader* header : headers)
    if (const auto* table = header->find(MessageType::kSymbolTable)) tables.push_back(table->body);
  fetch_symbol_tables(file, tables);
}

}  // namespace cellfeed::hdf5
