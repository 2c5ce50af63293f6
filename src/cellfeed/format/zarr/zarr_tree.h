// ZarrTree: a zarr store as any StoredTree. Thread-safe.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cellfeed/format/stored_tree.h"
#include "cellfeed/zarr/hierarchy.h"

namespace cellfeed::format::zarr {

class ZarrTree final : public StoredTree {
 public:
  // Throws what opening the store throws.
  explicit ZarrTree(std::shared_ptr<const cellfeed::zarr::KeyStore> store)
      : store_(std::move(store)) {}

  const cellfeed::zarr::Hierarchy& hierarchy() const { return store_; }
  const std::string& path() const override { return store_.store().path(); }
  std::string_view kind_name() const override { return "zarr store"; }
  // 0 of a directory.
  std::int64_t size() const override { return store_.store().size(); }
  void require_unchanged() const override { store_.require_unchanged(); }
  std::shared_ptr<const io::SeenFiles> seen_files() const override { return store_.store().seen(); }
  void release_pages() const override { store_.store().release_pages(); }
  std::unique_ptr<StoredNode> find(const std::string& path) const override;
  std::unique_ptr<StoredArray> open_array(const std::string& path,
                                          const ArrayUse& use) const override;
  std::vector<std::string> files_of(std::span<const std::string> arrays) const override;
  // As tree_fingerprint.
  std::uint64_t fingerprint(std::span<const std::string> groups,
                            const std::string& choice) const override;

 private:
  const cellfeed::zarr::Hierarchy store_;
};

}  // namespace cellfeed::format::zarr
