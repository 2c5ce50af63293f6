// Files, groups, datasets and attributes over what the structures' own files read.
#include "cellfeed/hdf5/file.h"

#include <algorithm>
#include <array>

#include "cellfeed/hdf5/attribute_values.h"
#include "cellfeed/hdf5/file_state.h"
#include "cellfeed/hdf5/group_links.h"
#include "cellfeed/hdf5/path_walk.h"
#include "cellfeed/hdf5/variable_length.h"

namespace cellfeed::hdf5 {

ObjectKind Object::kind() const {
  const ObjectHeader& header = node_->header();
  if (is_group(header)) return ObjectKind::kGroup;
  return is_dataset(header) ? ObjectKind::kDataset : ObjectKind::kDatatype;
}

Address Object::address() const { return node_->header().address(); }

const FileBytes& Object::bytes() const { return file_->bytes(); }

const std::vector<Attribute>& Object::attributes() const {
  return node_->attributes(file_->bytes(), file_->shared());
}

const Attribute* Object::attribute(std::string_view name) const {
  const auto& all = attributes();
  const auto found =
      std::lower_bound(all.begin(), all.end(), name,
                       [](const Attribute& a, std::string_view wanted) { return a.name < wanted; });
  return found == all.end() || found->name != name ? nullptr : &*found;
}

std::optional<std::string> Object::text_attribute(std::string_view name) const {
  auto texts = texts_attribute(name);
  if (!texts || texts->size() != 1) return std::nullopt;
  return std::move(texts->front());
}

std::optional<std::vector<std::string>> Object::texts_attribute(std::string_view name) const {
  const Attribute* found = attribute(name);
  if (found == nullptr) return std::nullopt;
  return attribute_texts(file_->bytes(), *found);
}

std::optional<std::vector<std::int64_t>> Object::integers_attribute(std::string_view name) const {
  const Attribute* found = attribute(name);
  if (found == nullptr) return std::nullopt;
  return attribute_integers(*found);
}

void Object::throw_other_kind(const char* wanted) const {
  throw_error(ErrorKind::kCorruptData, file_->bytes().path(), "not a {}: '{}'", wanted, path_);
}

Group Object::group() const {
  if (kind() != ObjectKind::kGroup) throw_other_kind("group");
  return Group(*this);
}

Dataset Object::dataset() const {
  if (kind() != ObjectKind::kDataset) throw_other_kind("dataset");
  return Dataset(*this, std::make_shared<const DatasetDescription>(read_dataset_description(
                            file_->bytes(), node_->header(), file_->shared(), path_)));
}

const std::vector<Link>& Group::members() const { return node_->links(file_->bytes()); }

std::vector<std::string> Group::member_names() const {
  std::vector<std::string> names;
  for (const Link& link : members()) names.push_back(link.name);
  return names;
}

std::optional<Object> Group::find(std::string_view path) const {
  return std::move(find_many(std::array{std::string(path)}).front());
}

std::vector<std::optional<Object>> Group::find_many(std::span<const std::string> paths) const {
  return PathWalk(file_, node_, path_).find(paths);
}

const Dataspace& Dataset::space() const { return description_->space; }
const Datatype& Dataset::datatype() const { return description_->type; }
const Layout& Dataset::layout() const { return description_->layout; }
const std::vector<FilterDescription>& Dataset::filters() const { return description_->filters; }
Bytes Dataset::fill_value() const { return description_->fill_value; }

File File::open(std::shared_ptr<const io::ByteSource> source) {
  return File(std::make_shared<const FileState>(std::move(source)));
}

const FileBytes& File::bytes() const { return state_->bytes(); }

Group File::root() const {
  return Object(state_, state_->nodes(std::array{state_->root()}).front(), "").group();
}

std::optional<Object> File::find(std::string_view path) const { return root().find(path); }

std::vector<std::optional<Object>> File::find_many(std::span<const std::string> paths) const {
  return root().find_many(paths);
}

}  // namespace cellfeed::hdf5
