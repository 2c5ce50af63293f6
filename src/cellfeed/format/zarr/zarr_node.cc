#include "cellfeed/format/zarr/zarr_node.h"

#include <nlohmann/json.hpp>

#include "cellfeed/base/error.h"
#include "cellfeed/format/zarr/zarr_array.h"
#include "cellfeed/format/zarr/zarr_column.h"

namespace cellfeed::format::zarr {
namespace {

using Json = nlohmann::json;

std::optional<std::int64_t> integer_of(const Json& json) {
  if (json.is_boolean()) return json.get<bool>() ? 1 : 0;
  if (json.is_number_integer()) return json.get<std::int64_t>();
  return std::nullopt;
}

}  // namespace

NodeKind ZarrNode::kind() const {
  if (!node_->is_array) return NodeKind::kGroup;
  return field_names().empty() ? NodeKind::kArray : NodeKind::kTable;
}

std::vector<std::string> ZarrNode::member_names() const {
  return node_->is_array ? field_names() : store_.members(path_);
}

// The fields of a one-dimensional array of records, which only format 2 has: [["name", type], ...].
std::vector<std::string> ZarrNode::field_names() const {
  std::vector<std::string> names;
  const Json type = node_->array.value("dtype", Json());
  if (!type.is_array() || node_->array.value("shape", Json()).size() != 1) return names;
  for (const Json& field : type)
    if (field.is_array() && !field.empty() && field[0].is_string())
      names.push_back(field[0].get<std::string>());
  return names;
}

const Json* ZarrNode::attribute(std::string_view name) const {
  const auto found = node_->attributes.find(name);
  return found == node_->attributes.end() ? nullptr : &*found;
}

bool ZarrNode::has_attribute(std::string_view name) const { return attribute(name) != nullptr; }

std::optional<std::string> ZarrNode::text_attribute(std::string_view name) const {
  const Json* json = attribute(name);
  if (json == nullptr || !json->is_string()) return std::nullopt;
  return json->get<std::string>();
}

std::optional<std::vector<std::string>> ZarrNode::texts_attribute(std::string_view name) const {
  const Json* json = attribute(name);
  if (json == nullptr || !json->is_array()) return std::nullopt;
  std::vector<std::string> texts;
  for (const Json& text : *json) {
    if (!text.is_string()) return std::nullopt;
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

std::optional<std::vector<std::int64_t>> ZarrNode::integers_attribute(std::string_view name) const {
  const Json* json = attribute(name);
  if (json == nullptr) return std::nullopt;
  std::vector<std::int64_t> integers;
  for (const Json& number : json->is_array() ? *json : Json::array({*json})) {
    const auto integer = integer_of(number);
    if (!integer) return std::nullopt;
    integers.push_back(*integer);
  }
  return integers;
}

std::vector<std::uint64_t> ZarrNode::shape() const {
  const auto array = this->array();
  return {array.shape.begin(), array.shape.end()};
}

ArrayTraits ZarrNode::traits() const {
  const auto array = this->array();
  const StoredNumber number = number_of(array.type, store_.store().path(), path_);
  const bool is_half = number.dtype == DType::kF32 && number.bytes == 2;
  ArrayTraits traits{.shape = array.shape,
                     .chunk_shape = array.inner_shape(),
                     .value_dtype = is_half ? "float16" : std::string(dtype_name(number.dtype)),
                     .filters = array.codecs.name()};
  if (number.is_big_endian) traits.value_dtype += " (big endian)";
  return traits;
}

std::shared_ptr<const ColumnSource> ZarrNode::values() const {
  return std::make_shared<const ZarrColumn>(store_, path_, array());
}

std::shared_ptr<const ColumnSource> ZarrNode::field(const std::string& name) const {
  return std::make_shared<const ZarrColumn>(store_, path_, array(), name);
}

std::unique_ptr<StoredNode> ZarrNode::categories() const {
  const auto stored = text_attribute("categories");
  if (!stored) return nullptr;
  // Relative to the table, in whose path the name of the column may have slashes.
  for (std::size_t end = path_.rfind('/'); end != std::string::npos && end > 0;
       end = path_.rfind('/', end - 1)) {
    const std::string path =
        cellfeed::zarr::Hierarchy::as_written(path_.substr(0, end + 1) + *stored);
    auto node = store_.find(path);
    if (node && node->is_array) return std::make_unique<ZarrNode>(store_, path, std::move(node));
  }
  throw_error(ErrorKind::kUnsupported, store_.store().path(),
              "the categories of this column are kept in a way that is not readable; write the "
              "store again with anndata 0.8 or later: '{}'",
              path_);
}

}  // namespace cellfeed::format::zarr
