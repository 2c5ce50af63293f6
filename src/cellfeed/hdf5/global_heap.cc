// Global heap collections.
#include "cellfeed/hdf5/global_heap.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "cellfeed/hdf5/cursor.h"

namespace cellfeed::hdf5 {
namespace {

constexpr std::string_view kGlobalHeap = "global heap collection";
constexpr std::uint64_t kUsualBytes = 4096;  // of a collection, and the least of every one

// Of a collection and of an object alike, whatever the length size: padded to a multiple of eight.
constexpr std::uint64_t kHeaderBytes = 16;

// Of the whole collection, from its header.
std::uint64_t collection_bytes(Cursor header) {
  header.expect_signature("GCOL");
  if (const int version = header.u8(); version != 1)
    header.fail("version {} is not known", version);
  header.skip(3);
  const std::uint64_t n_bytes = header.read_length();
  if (n_bytes < kHeaderBytes) header.fail("it has {} bytes", n_bytes);
  return n_bytes;
}

}  // namespace

void GlobalHeap::fetch(std::span<const GlobalHeapId> ids) {
  std::vector<AddressRange> ranges;
  for (const GlobalHeapId& id : ids) {
    if (!ranges.empty() && ranges.back().address == id.collection) continue;
    if (collections_.contains(id.collection)) continue;
    if (!file_.holds(id.collection, kHeaderBytes))
      Cursor(file_, id.collection, kHeaderBytes, kGlobalHeap);  // throws
    const std::uint64_t room = file_.size() - file_.base_address() - id.collection;
    ranges.push_back({id.collection, std::min(room, kUsualBytes)});
  }
  const auto by_address = [](const AddressRange& a, const AddressRange& b) {
    return a.address < b.address;
  };
  std::sort(ranges.begin(), ranges.end(), by_address);
  const auto is_same = [](const AddressRange& a, const AddressRange& b) {
    return a.address == b.address;
  };
  ranges.erase(std::unique(ranges.begin(), ranges.end(), is_same), ranges.end());
  std::vector<AddressRange> longer;
  const std::vector<Bytes> starts = file_.read_many(ranges);
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const Address address = ranges[i].address;
    const std::uint64_t n_bytes = collection_bytes(Cursor(file_, starts[i], address, kGlobalHeap));
    bound_.visit(address, n_bytes);
    if (n_bytes <= starts[i].size())
      parse(address, starts[i].part(0, static_cast<std::size_t>(n_bytes)));
    else
      longer.push_back({address, n_bytes});
  }
  const std::vector<Bytes> wholes = file_.read_many(longer);
  for (std::size_t i = 0; i < wholes.size(); ++i) parse(longer[i].address, wholes[i]);
}

std::span<const std::byte> GlobalHeap::object(const GlobalHeapId& id) {
  const Collection& from = collection(id.collection);
  const Place place = id.index < from.places.size() ? from.places[id.index] : Place{};
  if (place.offset == 0)
    Cursor(file_, from.bytes, id.collection, kGlobalHeap).fail("it has no object {}", id.index);
  return from.bytes.view().subspan(static_cast<std::size_t>(place.offset),
                                   static_cast<std::size_t>(place.n_bytes));
}

const GlobalHeap::Collection& GlobalHeap::collection(Address address) {
  if (last_ != nullptr && last_address_ == address) return *last_;
  if (!collections_.contains(address)) fetch(std::array{GlobalHeapId{address, 0}});
  last_address_ = address;
  last_ = &collections_.at(address);
  return *last_;
}

void GlobalHeap::parse(Address address, const Bytes& bytes) {
  Cursor at(file_, bytes, address, kGlobalHeap);
  at.seek(kHeaderBytes);
  Collection read{bytes, {}};
  while (at.remaining() >= kHeaderBytes) {
    const std::size_t begin = at.position();
    const std::uint16_t index = at.u16();
    at.skip(6);
    const std::uint64_t size = at.read_length();
    if (index == 0) break;  // free space up to the end
    const std::uint64_t offset = begin + kHeaderBytes;
    at.seek(offset);
    at.skip(size);
    if (read.places.size() <= index) read.places.resize(std::size_t{index} + 1);
    read.places[index] = {offset, size};
    at.skip(std::min<std::uint64_t>((8 - size % 8) % 8, at.remaining()));
  }
  collections_.insert_or_assign(address, std::move(read));
}

}  // namespace cellfeed::hdf5
