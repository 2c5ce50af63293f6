// FileState: one open file and the object headers that were read of it last. Internal to file.cc
// and path_walk.cc. Thread-safe.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "cellfeed/base/fork_safe_mutex.h"
#include "cellfeed/hdf5/attribute_message.h"
#include "cellfeed/hdf5/file_bytes.h"
#include "cellfeed/hdf5/link_message.h"
#include "cellfeed/hdf5/object_header.h"
#include "cellfeed/hdf5/shared_message.h"
#include "cellfeed/hdf5/superblock.h"

namespace cellfeed::hdf5 {

// An object header with what was read by way of it. Two threads may read the same; both find the
// same.
class ObjectNode {
 public:
  explicit ObjectNode(ObjectHeader header) : header_(std::move(header)) {}

  const ObjectHeader& header() const { return header_; }
  // Lifetime of what these return: as long as the node.
  const std::vector<Link>& links(const FileBytes& file) const;
  const std::vector<Attribute>& attributes(const FileBytes& file,
                                           const SharedMessages& shared) const;

 private:
  const ObjectHeader header_;
  mutable ForkSafeMutex mutex_;  // guards what follows, which is set once
  mutable std::unique_ptr<const std::vector<Link>> links_;
  mutable std::unique_ptr<const std::vector<Attribute>> attributes_;
};

class FileState {
 public:
  explicit FileState(std::shared_ptr<const io::ByteSource> source);

  const FileBytes& bytes() const { return bytes_; }
  const SharedMessages& shared() const { return *shared_; }
  Address root() const { return superblock_.root_header; }
  // The headers at these addresses, in their order; those that are not kept are read together.
  std::vector<std::shared_ptr<const ObjectNode>> nodes(std::span<const Address> addresses) const;

 private:
  using Nodes = std::unordered_map<Address, std::shared_ptr<const ObjectNode>>;

  FileBytes bytes_;
  Superblock superblock_;
  std::unique_ptr<const SharedMessages> shared_;

  mutable ForkSafeMutex mutex_;  // guards what follows
  mutable Nodes kept_;
};

}  // namespace cellfeed::hdf5
