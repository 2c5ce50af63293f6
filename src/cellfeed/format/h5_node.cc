#include "cellfeed/format/h5_node.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>

#include "cellfeed/base/error.h"
#include "cellfeed/format/column_values.h"
#include "cellfeed/format/stored_number.h"
#include "cellfeed/hdf5/filter_pipeline.h"

namespace cellfeed::format {
namespace {

class H5Column final : public ColumnSource {
 public:
  explicit H5Column(StoredColumn column) : column_(std::move(column)) {}

  const std::string& name() const override { return column_.name; }
  std::int64_t length() const override { return column_.length(); }
  bool holds_integers() const override {
    return column_.type.type_class == hdf5::TypeClass::kFixedPoint;
  }
  std::shared_ptr<arrow::Array> read(std::int64_t begin, std::int64_t end) const override {
    return read_values(column_, begin, end);
  }
  std::shared_ptr<arrow::Array> read_all() const override { return read_all_values(column_); }

 private:
  const StoredColumn column_;
};

std::optional<hdf5::Dataset> dataset_of(const hdf5::Object& object) {
  if (object.kind() != hdf5::ObjectKind::kDataset) return std::nullopt;
  return object.dataset();
}

bool is_table(const hdf5::Dataset& dataset) {
  const hdf5::Datatype& type = dataset.datatype();
  return type.type_class == hdf5::TypeClass::kCompound && !type.members.empty() &&
         dataset.shape().size() == 1;
}

std::string dtype_text(const hdf5::Datatype& type, const std::string& path,
                       const std::string& name) {
  const StoredNumber number = stored_number(type, path, name);
  const bool is_half = number.dtype == DType::kF32 && number.bytes == 2;
  std::string text(is_half ? "float16" : dtype_name(number.dtype));
  return number.is_big_endian && number.bytes > 1 ? text + " (big endian)" : text;
}

std::string filters_text(const hdf5::Dataset& dataset) {
  std::string text;
  for (const hdf5::FilterDescription& filter : dataset.filters()) {
    const std::string_view name = hdf5::filter_name(filter.id);
    if (!text.empty()) text.push_back('+');
    text += name.empty() ? fmt::format("filter {}", filter.id) : std::string(name);
  }
  return text.empty() ? "none" : text;
}

// The address that a reference holds.
std::optional<hdf5::Address> referred_address(const hdf5::Attribute& attribute) {
  const auto value = attribute.value.view();
  if (!attribute.type.is_object_reference || attribute.space.n_elements != 1 || value.size() > 8)
    return std::nullopt;
  hdf5::Address address = 0;
  std::memcpy(&address, value.data(), value.size());
  return address;
}

}  // namespace

ArrayTraits traits_of(const hdf5::Dataset& dataset, const hdf5::Datatype& type,
                      const std::string& name) {
  ArrayTraits traits;
  traits.shape.assign(dataset.shape().begin(), dataset.shape().end());
  traits.filters = filters_text(dataset);
  if (const auto* chunked = std::get_if<hdf5::ChunkedLayout>(&dataset.layout()))
    traits.chunk_shape.assign(chunked->chunk_shape.begin(), chunked->chunk_shape.end());
  traits.value_dtype = dtype_text(type, dataset.bytes().path(), name);
  return traits;
}

H5Node::H5Node(hdf5::File file, hdf5::Object object)
    : file_(std::move(file)), object_(std::move(object)), dataset_(dataset_of(object_)) {}

NodeKind H5Node::kind() const {
  if (dataset_) return is_table(*dataset_) ? NodeKind::kTable : NodeKind::kArray;
  return object_.kind() == hdf5::ObjectKind::kGroup ? NodeKind::kGroup : NodeKind::kOther;
}

std::vector<std::string> H5Node::member_names() const {
  if (!dataset_) return object_.group().member_names();
  std::vector<std::string> names;
  for (const auto& member : dataset_->datatype().members) names.push_back(member.name);
  return names;
}

bool H5Node::has_member(const std::string& name) const {
  const auto names = member_names();
  return std::ranges::find(names, name) != names.end();
}

std::string H5Node::type_text() const { return dataset_->datatype().description(); }

ArrayTraits H5Node::traits() const { return traits_of(*dataset_, dataset_->datatype(), path()); }

std::shared_ptr<const ColumnSource> H5Node::values() const {
  return std::make_shared<const H5Column>(column_of(*dataset_));
}

std::shared_ptr<const ColumnSource> H5Node::field(const std::string& name) const {
  const auto& members = dataset_->datatype().members;
  const auto found = std::ranges::find(members, name, &hdf5::Datatype::Member::name);
  return std::make_shared<const H5Column>(
      column_of(*dataset_, static_cast<std::size_t>(found - members.begin())));
}

std::unique_ptr<StoredNode> H5Node::categories() const {
  const hdf5::Attribute* attribute = object_.attribute("categories");
  if (attribute == nullptr) return nullptr;
  const auto address = referred_address(*attribute);
  const auto is_referred = [&](const std::optional<hdf5::Object>& object) {
    return object && object->kind() == hdf5::ObjectKind::kDataset && object->address() == address;
  };
  // Under the name of the column, unless somebody moved it.
  const std::size_t slash = path().rfind('/');
  const std::string group = path().substr(0, slash) + "/__categories";
  const auto usual = file_.find(group + path().substr(slash));
  if (is_referred(usual)) return std::make_unique<H5Node>(file_, *usual);
  const auto kept = file_.find(group);
  if (kept && kept->kind() == hdf5::ObjectKind::kGroup)
    for (const std::string& name : kept->group().member_names())
      if (const auto member = kept->group().find(name); is_referred(member))
        return std::make_unique<H5Node>(file_, *member);
  throw_error(ErrorKind::kUnsupported, file_.path(),
              "the categories of this column are kept in a way that is not readable; write the "
              "file again with anndata 0.8 or later: '{}'",
              path());
}

}  // namespace cellfeed::format
