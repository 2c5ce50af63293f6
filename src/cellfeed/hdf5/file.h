// File, Object, Group and Dataset: what an HDF5 file holds, read only, over any ByteSource.
// Thread-safe: values that share what was read; no lock is held while anything is read.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cellfeed/hdf5/attribute_message.h"
#include "cellfeed/hdf5/dataset_description.h"
#include "cellfeed/hdf5/file_bytes.h"
#include "cellfeed/hdf5/link_message.h"
#include "cellfeed/io/byte_source.h"

namespace cellfeed::hdf5 {

class FileState;
class ObjectNode;
class Group;
class Dataset;

enum class ObjectKind : std::uint8_t { kGroup, kDataset, kDatatype };

// An object of a file; it keeps the file open.
class Object {
 public:
  ObjectKind kind() const;
  // From the root, as it was asked for: "obs/cell_type"; empty for the root.
  const std::string& path() const { return path_; }
  // Of its object header: the same for all paths of one object.
  Address address() const;
  const FileBytes& bytes() const;

  // In ascending order of their names' bytes; read at the first call.
  const std::vector<Attribute>& attributes() const;
  // Null where there is none.
  const Attribute* attribute(std::string_view name) const;
  // None where it is absent, is no string, or has more or fewer than one element.
  std::optional<std::string> text_attribute(std::string_view name) const;
  // None where it is absent or is not of strings; see attribute_values.h.
  std::optional<std::vector<std::string>> texts_attribute(std::string_view name) const;
  // None where it is absent or is not of integers.
  std::optional<std::vector<std::int64_t>> integers_attribute(std::string_view name) const;

  // Throws kCorruptData where it is of another kind.
  Group group() const;
  Dataset dataset() const;

 protected:
  friend class File;
  friend class PathWalk;
  Object(std::shared_ptr<const FileState> file, std::shared_ptr<const ObjectNode> node,
         std::string path)
      : file_(std::move(file)), node_(std::move(node)), path_(std::move(path)) {}
  [[noreturn]] void throw_other_kind(const char* wanted) const;

  std::shared_ptr<const FileState> file_;
  std::shared_ptr<const ObjectNode> node_;
  std::string path_;
};

class Group : public Object {
 public:
  // In ascending order of their names' bytes; read at the first call.
  const std::vector<Link>& members() const;
  std::vector<std::string> member_names() const;
  // What a path from here leads to, by way of soft links too, and of external ones that are
  // allowed; none where it leads nowhere. Throws kUnsupported where it leads to another file,
  // kCorruptData where links go in a circle.
  std::optional<Object> find(std::string_view path) const;
  // Each of them; all are read together, a few round trips a level.
  std::vector<std::optional<Object>> find_many(std::span<const std::string> paths) const;

 private:
  friend class Object;
  friend class File;
  explicit Group(const Object& object) : Object(object) {}
};

class Dataset : public Object {
 public:
  const Dataspace& space() const;
  const std::vector<std::uint64_t>& shape() const { return space().shape; }
  const Datatype& datatype() const;
  const Layout& layout() const;
  // In the order of writing.
  const std::vector<FilterDescription>& filters() const;
  // One element as it is stored; no bytes mean zeros.
  Bytes fill_value() const;

 private:
  friend class Object;
  Dataset(const Object& object, std::shared_ptr<const DatasetDescription> description)
      : Object(object), description_(std::move(description)) {}

  std::shared_ptr<const DatasetDescription> description_;
};

class File {
 public:
  // Reads the superblock and the root's header. Throws kCorruptData (empty, no HDF5 file,
  // truncated) or kUnsupported.
  static File open(std::shared_ptr<const io::ByteSource> source);

  const std::string& path() const { return bytes().path(); }
  const FileBytes& bytes() const;
  Group root() const;
  // As Group::find and find_many, from the root.
  std::optional<Object> find(std::string_view path) const;
  std::vector<std::optional<Object>> find_many(std::span<const std::string> paths) const;

 private:
  explicit File(std::shared_ptr<const FileState> state) : state_(std::move(state)) {}

  std::shared_ptr<const FileState> state_;
};

}  // namespace cellfeed::hdf5
