// ZarrNode: a group or an array of a zarr store, as any StoredTree has them. Thread-safe. Lifetime:
// the store's Hierarchy outlives it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cellfeed/format/stored_tree.h"
#include "cellfeed/zarr/hierarchy.h"

namespace cellfeed::format::zarr {

class ZarrNode final : public StoredNode {
 public:
  ZarrNode(const cellfeed::zarr::Hierarchy& store, std::string path,
           std::shared_ptr<const cellfeed::zarr::Node> node)
      : store_(store), path_(std::move(path)), node_(std::move(node)) {}

  NodeKind kind() const override;
  const std::string& path() const override { return path_; }
  bool has_attribute(std::string_view name) const override;
  std::optional<std::string> text_attribute(std::string_view name) const override;
  std::optional<std::vector<std::string>> texts_attribute(std::string_view name) const override;
  std::optional<std::vector<std::int64_t>> integers_attribute(std::string_view name) const override;
  std::vector<std::string> member_names() const override;
  bool has_member(const std::string& name) const override {
    return store_.find(path_ + "/" + name) != nullptr;
  }
  std::vector<std::uint64_t> shape() const override;
  std::string type_text() const override { return array().type.text; }
  ArrayTraits traits() const override;
  std::shared_ptr<const ColumnSource> values() const override;
  std::shared_ptr<const ColumnSource> field(const std::string& name) const override;
  // By the path from the dataframe, which anndata 0.7 writes.
  std::unique_ptr<StoredNode> categories() const override;

 private:
  cellfeed::zarr::ArrayMetadata array() const { return store_.array_of(*node_, path_); }
  const nlohmann::json* attribute(std::string_view name) const;
  std::vector<std::string> field_names() const;

  const cellfeed::zarr::Hierarchy& store_;
  const std::string path_;
  const std::shared_ptr<const cellfeed::zarr::Node> node_;
};

}  // namespace cellfeed::format::zarr
