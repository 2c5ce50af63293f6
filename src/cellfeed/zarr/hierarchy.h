// Hierarchy: the groups and arrays of a zarr store, by path, of format 2 or 3. What is consolidated
// at the root is asked for nothing more. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cellfeed/base/fork_safe_mutex.h"
#include "cellfeed/zarr/array_metadata.h"
#include "cellfeed/zarr/key_store.h"

namespace cellfeed::zarr {

struct Node {
  bool is_array = false;
  nlohmann::json attributes = nlohmann::json::object();
  nlohmann::json array;  // what parse_v2_array or parse_v3_array reads
};

class Hierarchy {
 public:
  // Throws kCorruptData, or kUnsupported, where the root is no group that is readable here.
  explicit Hierarchy(std::shared_ptr<const KeyStore> store);

  const KeyStore& store() const { return *store_; }
  const std::shared_ptr<const KeyStore>& shared_store() const { return store_; }
  // zarr takes backslashes for slashes when it writes: who goes on from a node to its chunks needs
  // the path so.
  static std::string as_written(std::string path);
  // Null where nothing is there. path: "" is the root. Throws kCorruptData for damaged metadata.
  std::shared_ptr<const Node> find(const std::string& path) const;
  // Of a group, ascending.
  std::vector<std::string> members(const std::string& path) const;
  // REQUIRES: node is find(path), an array. Throws what parsing throws.
  ArrayMetadata array_of(const Node& node, const std::string& path) const;
  // Throws kCorruptData where the metadata of the root was written to since it was opened, or the
  // store was as far as it knows.
  void require_unchanged() const;
  // The text of the metadata of a node, for who asks whether two are the same.
  std::string text_of(const std::string& path) const;
  // The keys that metadata was read from at opening.
  const std::string& root_key() const { return root_key_; }

 private:
  void read_root();
  std::optional<std::string> read_root_key(const std::string& key);
  void read_v2_group();
  void read_v3_root(const std::string& text);
  nlohmann::json parse(const std::string& text, const std::string& key) const;
  void add_v2_entries(const nlohmann::json& entries);
  void add_v3_entries(const nlohmann::json& entries);
  std::shared_ptr<const Node> look_up(const std::string& path) const;
  std::shared_ptr<const Node> look_up_v2(const std::string& path) const;
  std::shared_ptr<const Node> v3_node(const nlohmann::json& json, const std::string& path) const;

  const std::shared_ptr<const KeyStore> store_;
  bool is_v3_ = false;
  bool is_consolidated_ = false;
  std::string root_key_;
  std::optional<ValueStatus> root_status_;
  mutable ForkSafeMutex mutex_;  // guards nodes_
  mutable std::map<std::string, std::shared_ptr<const Node>> nodes_;
};

}  // namespace cellfeed::zarr
