// The AnnData inside a larger file: a modality of a MuData, the table of a SpatialData store.
// Thread-safe.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cellfeed/format/stored_tree.h"

namespace cellfeed::format::anndata {

// The error for a modality of a file that is no MuData.
inline constexpr const char* kNoMuData =
    "modality is for MuData files, which this is not: leave it out";

// Where the AnnData of a file lies: "" for the root, "mod/rna", "tables/table". modality: empty for
// none. Throws kInvalidArgument where it is missing or the file is no MuData, kNoSuchKey for an
// unknown one, and kUnsupported for several tables.
std::string find_anndata(const StoredTree& file, const std::string& modality);

// A group of a file as a tree of its own.
class SubTree final : public StoredTree {
 public:
  // Lifetime: the file outlives it.
  SubTree(const StoredTree& file, std::string root) : file_(file), root_(std::move(root)) {}
  SubTree(std::unique_ptr<const StoredTree> file, std::string root)
      : owned_(std::move(file)), file_(*owned_), root_(std::move(root)) {}

  const std::string& path() const override { return file_.path(); }
  std::string root() const override { return root_; }
  std::string_view kind_name() const override { return file_.kind_name(); }
  std::int64_t size() const override { return file_.size(); }
  void require_unchanged() const override { file_.require_unchanged(); }
  std::shared_ptr<const io::SeenFiles> seen_files() const override { return file_.seen_files(); }
  void release_pages() const override { file_.release_pages(); }
  const io::ReadAhead* ahead() const override { return file_.ahead(); }
  std::span<const std::byte> row_bytes() const override { return file_.row_bytes(); }
  io::ReadCosts row_costs() const override { return file_.row_costs(); }
  std::unique_ptr<StoredNode> find(const std::string& path) const override {
    return file_.find(whole(path));
  }
  std::unique_ptr<StoredArray> open_array(const std::string& path,
                                          const ArrayUse& use) const override {
    return file_.open_array(whole(path), use);
  }
  std::vector<std::string> files_of(std::span<const std::string> arrays) const override {
    return file_.files_of(whole(arrays));
  }
  std::uint64_t fingerprint(std::span<const std::string> groups,
                            const std::string& choice) const override {
    return file_.fingerprint(whole(groups), whole(choice));
  }

 private:
  std::string whole(const std::string& path) const { return root_ + "/" + path; }
  std::vector<std::string> whole(std::span<const std::string> paths) const;

  const std::unique_ptr<const StoredTree> owned_;  // null where the caller has it
  const StoredTree& file_;
  const std::string root_;
};

// The AnnData of a file, as find_anndata finds it.
std::unique_ptr<const StoredTree> take_anndata(std::unique_ptr<const StoredTree> file,
                                               const std::string& modality);

}  // namespace cellfeed::format::anndata
