#include "cellfeed/zarr/hierarchy.h"

#include <algorithm>
#include <mutex>
#include <string_view>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/base/json_depth.h"
#include "cellfeed/io/stand_in.h"

namespace cellfeed::zarr {
namespace {

using Json = nlohmann::json;

std::string key_of(const std::string& path, const char* name) {
  return path.empty() ? name : path + "/" + name;
}

// "obs/cell_type" and ".zarray" of "obs/cell_type/.zarray".
std::pair<std::string, std::string> split_key(const std::string& key) {
  const auto at = key.rfind('/');
  if (at == std::string::npos) return {"", key};
  return {key.substr(0, at), key.substr(at + 1)};
}

}  // namespace

Hierarchy::Hierarchy(std::shared_ptr<const KeyStore> store) : store_(std::move(store)) {
  read_root();
  if (find("")->is_array)
    throw_error(ErrorKind::kUnsupported, store_->path(),
                "the zarr store is one array, not a group: give the folder of the AnnData that it "
                "is part of");
  require_unchanged();
}

// What is written between both is told later.
std::optional<std::string> Hierarchy::read_root_key(const std::string& key) {
  root_key_ = key;
  if (store_->is_local()) root_status_ = store_->status(key);
  return read_text(*store_, key);
}

void Hierarchy::read_root() {
  if (const auto text = read_root_key("zarr.json")) return read_v3_root(*text);
  if (read_root_key(".zgroup")) return read_v2_group();
  if (read_root_key(".zarray")) return;
  throw_error(ErrorKind::kCorruptData, store_->path(),
              "no zarr store: there is neither zarr.json nor .zgroup (an empty or partly copied "
              "one?)");
}

void Hierarchy::read_v2_group() {
  const auto of_group = root_status_;
  if (const auto text = read_root_key(".zmetadata")) {
    const Json json = parse(*text, root_key_);
    if (!json.contains("metadata") || !json["metadata"].is_object())
      throw_error(ErrorKind::kCorruptData, store_->path(), "damaged metadata: '.zmetadata'");
    is_consolidated_ = true;
    add_v2_entries(json["metadata"]);
    return;
  }
  root_key_ = ".zgroup";
  root_status_ = of_group;
}

void Hierarchy::read_v3_root(const std::string& text) {
  is_v3_ = true;
  const Json json = parse(text, root_key_);
  nodes_[""] = v3_node(json, "");
  const Json consolidated = json.value("consolidated_metadata", Json());
  if (!consolidated.is_object() || consolidated.value("metadata", Json()) == Json::object()) return;
  if (consolidated.value("kind", Json("inline")) != "inline" ||
      !consolidated.contains("metadata") || !consolidated["metadata"].is_object())
    throw_error(ErrorKind::kCorruptData, store_->path(),
                "damaged metadata: 'consolidated_metadata' of 'zarr.json'");
  is_consolidated_ = true;
  add_v3_entries(consolidated["metadata"]);
}

Json Hierarchy::parse(const std::string& text, const std::string& key) const {
  require_shallow_json(text, store_->path());
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) {
    io::refuse_stand_in(text, store_->path() + "/" + key);
    throw_error(ErrorKind::kCorruptData, store_->path(), "damaged metadata: '{}' is no JSON object",
                key);
  }
  return json;
}

void Hierarchy::add_v2_entries(const Json& entries) {
  std::map<std::string, std::shared_ptr<Node>> found;
  const auto node_of = [&](const std::string& path) -> Node& {
    auto& node = found[path];
    if (!node) node = std::make_shared<Node>();
    return *node;
  };
  for (const auto& [key, value] : entries.items()) {
    const auto [path, name] = split_key(key);
    if (name == ".zgroup") {
      node_of(path);
    } else if (name == ".zarray") {
      node_of(path).is_array = true;
      node_of(path).array = value;
    }
  }
  for (const auto& [key, value] : entries.items()) {
    const auto [path, name] = split_key(key);
    const auto at = found.find(path);
    if (name == ".zattrs" && at != found.end() && value.is_object()) at->second->attributes = value;
  }
  if (!found.contains("")) found[""] = std::make_shared<Node>();
  for (auto& [path, node] : found) nodes_[path] = std::move(node);
}

void Hierarchy::add_v3_entries(const Json& entries) {
  for (const auto& [path, value] : entries.items())
    if (!path.empty()) nodes_[path] = v3_node(value, path);
}

std::shared_ptr<const Node> Hierarchy::v3_node(const Json& json, const std::string& path) const {
  if (!json.is_object() || json.value("zarr_format", Json()) != 3)
    throw_error(ErrorKind::kUnsupported, store_->path(),
                "the zarr_format of '{}' is not 3, as its zarr.json has to say",
                key_of(path, "zarr.json"));
  const Json type = json.value("node_type", Json());
  if (type != "group" && type != "array")
    throw_error(ErrorKind::kCorruptData, store_->path(),
                "damaged metadata: '{}' is of node_type {}", key_of(path, "zarr.json"),
                type.dump());
  auto node = std::make_shared<Node>();
  node->is_array = type == "array";
  if (json.contains("attributes") && json["attributes"].is_object())
    node->attributes = json["attributes"];
  if (node->is_array) node->array = json;
  return node;
}

std::shared_ptr<const Node> Hierarchy::look_up_v2(const std::string& path) const {
  auto node = std::make_shared<Node>();
  const std::string array_key = key_of(path, ".zarray");
  if (const auto array = read_text(*store_, array_key)) {
    node->is_array = true;
    node->array = parse(*array, array_key);
  } else if (!store_->status(key_of(path, ".zgroup"))) {
    return nullptr;
  }
  const std::string attributes_key = key_of(path, ".zattrs");
  if (const auto attributes = read_text(*store_, attributes_key))
    node->attributes = parse(*attributes, attributes_key);
  return node;
}

std::shared_ptr<const Node> Hierarchy::look_up(const std::string& path) const {
  if (!path.empty() && !is_sound_key(path)) return nullptr;
  if (!is_v3_) return look_up_v2(path);
  const std::string key = key_of(path, "zarr.json");
  const auto text = read_text(*store_, key);
  return text ? v3_node(parse(*text, key), path) : nullptr;
}

std::string Hierarchy::as_written(std::string path) {
  std::ranges::replace(path, '\\', '/');
  return path;
}

std::shared_ptr<const Node> Hierarchy::find(const std::string& given) const {
  const std::string path = as_written(given);
  {
    const std::lock_guard lock(mutex_);
    const auto found = nodes_.find(path);
    if (found != nodes_.end()) return found->second;
  }
  if (is_consolidated_) return nullptr;
  auto node = look_up(path);
  const std::lock_guard lock(mutex_);
  return nodes_[path] = std::move(node);
}

std::vector<std::string> Hierarchy::members(const std::string& path) const {
  std::vector<std::string> names;
  const std::string folder = path.empty() ? "" : path + "/";
  if (!is_consolidated_) {
    for (std::string& name : store_->names_in(path))
      if (!name.starts_with('.') && name != "zarr.json" && find(folder + name))
        names.push_back(std::move(name));
    return names;
  }
  for (auto at = nodes_.lower_bound(folder); at != nodes_.end() && at->first.starts_with(folder);
       ++at) {
    std::string name = at->first.substr(folder.size());
    if (!name.empty() && name.find('/') == std::string::npos) names.push_back(std::move(name));
  }
  return names;
}

ArrayMetadata Hierarchy::array_of(const Node& node, const std::string& path) const {
  return is_v3_ ? parse_v3_array(node.array, store_->path(), path)
                : parse_v2_array(node.array, store_->path(), path);
}

std::string Hierarchy::text_of(const std::string& path) const {
  const auto node = find(path);
  if (!node) return "";
  return node->attributes.dump(-1, ' ', false, Json::error_handler_t::replace) +
         node->array.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void Hierarchy::require_unchanged() const {
  store_->require_unchanged();
  if (store_->is_local() && store_->status(root_key_) != root_status_)
    throw_error(ErrorKind::kCorruptData, store_->path(),
                "the store was written to since it was opened: open it again once it is whole");
}

}  // namespace cellfeed::zarr
