// Object headers kept by address.
#include "cellfeed/hdf5/file_state.h"

#include <algorithm>
#include <mutex>

#include "cellfeed/hdf5/group_links.h"
#include "cellfeed/hdf5/object_attributes.h"

namespace cellfeed::hdf5 {
namespace {

// Enough for the groups that paths lead through again and again.
constexpr std::size_t kMaxKept = 256;

// Reads outside of the lock; the first to come is kept.
template <typename Value, typename Read>
const Value& read_once(ForkSafeMutex& mutex, std::unique_ptr<const Value>& slot, const Read& read) {
  {
    const std::scoped_lock lock(mutex);
    if (slot) return *slot;
  }
  auto value = std::make_unique<const Value>(read());
  const std::scoped_lock lock(mutex);
  if (!slot) slot = std::move(value);
  return *slot;
}

}  // namespace

const std::vector<Link>& ObjectNode::links(const FileBytes& file) const {
  return read_once(mutex_, links_, [&] { return read_group_links(file, header_); });
}

const std::vector<Attribute>& ObjectNode::attributes(const FileBytes& file,
                                                     const SharedMessages& shared) const {
  return read_once(mutex_, attributes_,
                   [&] { return read_object_attributes(file, header_, shared); });
}

FileState::FileState(std::shared_ptr<const io::ByteSource> source)
    : bytes_(std::move(source)), superblock_((bytes_.fetch_ends(), read_superblock(bytes_))) {
  const AddressRange headers[] = {{superblock_.root_header, 512}, {superblock_.extension, 512}};
  bytes_.fetch(headers);
  shared_ = std::make_unique<const SharedMessages>(bytes_, superblock_.extension);
}

std::vector<std::shared_ptr<const ObjectNode>> FileState::nodes(
    std::span<const Address> addresses) const {
  Nodes found;
  std::vector<Address> missing;
  {
    const std::scoped_lock lock(mutex_);
    for (const Address address : addresses) {
      if (found.contains(address)) continue;
      const auto kept = kept_.find(address);
      found[address] = kept == kept_.end() ? nullptr : kept->second;
      if (kept == kept_.end()) missing.push_back(address);
    }
  }
  for (ObjectHeader& header : ObjectHeader::read_many(bytes_, missing)) {
    const Address address = header.address();
    found[address] = std::make_shared<const ObjectNode>(std::move(header));
  }
  {
    const std::scoped_lock lock(mutex_);
    if (kept_.size() + missing.size() > kMaxKept) kept_.clear();
    if (missing.size() <= kMaxKept)
      for (const Address address : missing) kept_[address] = found[address];
  }
  std::vector<std::shared_ptr<const ObjectNode>> nodes;
  for (const Address address : addresses) nodes.push_back(found[address]);
  return nodes;
}

}  // namespace cellfeed::hdf5
