// H5Node: a group or a dataset of an HDF5 file, as any StoredTree has them. Thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cellfeed/format/stored_tree.h"
#include "cellfeed/hdf5/file.h"

namespace cellfeed::format {

class H5Node final : public StoredNode {
 public:
  H5Node(hdf5::File file, hdf5::Object object);

  NodeKind kind() const override;
  const std::string& path() const override { return object_.path(); }
  bool has_attribute(std::string_view name) const override {
    return object_.attribute(name) != nullptr;
  }
  std::optional<std::string> text_attribute(std::string_view name) const override {
    return object_.text_attribute(name);
  }
  std::optional<std::vector<std::string>> texts_attribute(std::string_view name) const override {
    return object_.texts_attribute(name);
  }
  std::optional<std::vector<std::int64_t>> integers_attribute(
      std::string_view name) const override {
    return object_.integers_attribute(name);
  }
  std::vector<std::string> member_names() const override;
  bool has_member(const std::string& name) const override;
  std::vector<std::uint64_t> shape() const override { return dataset_->shape(); }
  std::string type_text() const override;
  ArrayTraits traits() const override;
  std::shared_ptr<const ColumnSource> values() const override;
  std::shared_ptr<const ColumnSource> field(const std::string& name) const override;
  // By an object reference.
  std::unique_ptr<StoredNode> categories() const override;

 private:
  const hdf5::File file_;
  const hdf5::Object object_;
  const std::optional<hdf5::Dataset> dataset_;
};

// Of numbers of `type`, which are those of the dataset or of a field of its records.
ArrayTraits traits_of(const hdf5::Dataset& dataset, const hdf5::Datatype& type,
                      const std::string& name);

}  // namespace cellfeed::format
