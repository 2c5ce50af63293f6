#include "cellfeed/format/zarr/zarr_store.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "cellfeed/format/anndata/anndata_store.h"
#include "cellfeed/format/zarr/zarr_tree.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::format::zarr {
namespace {

bool is_zip(const std::string& path) {
  constexpr std::string_view kSignature = "PK\x03\x04";
  const auto file = io::open_file(path, {.access = io::FileAccess::kPread, .threads = 1});
  std::array<char, kSignature.size()> start{};
  if (file->size() < std::ssize(start)) return false;
  file->read(0, std::as_writable_bytes(std::span(start)));
  return std::string_view(start.data(), start.size()) == kSignature;
}

bool is_named_zarr(std::string path) {
  while (path.ends_with('/')) path.pop_back();
  return path.ends_with(".zarr");
}

}  // namespace

bool is_zarr(const std::string& path) {
  const io::PathStatus status = io::status_of(path);
  if (status.is_file()) return is_zip(path);
  if (!status.is_directory()) return false;
  const auto has = [&](const char* name) { return io::exists(path + "/" + name); };
  // An empty one is told by its name, so that what is missing can be said.
  return has("zarr.json") || has(".zgroup") || has(".zattrs") || has(".zarray") ||
         is_named_zarr(path);
}

std::unique_ptr<ZarrTree> open_tree(const std::string& path) {
  const bool is_file = io::status_of(path).is_file();
  return std::make_unique<ZarrTree>(is_file ? cellfeed::zarr::open_zip_store(path)
                                            : cellfeed::zarr::open_directory_store(path));
}

std::unique_ptr<RowStore> open_zarr(const std::string& path, const OpenOptions& options) {
  return anndata::open_anndata(open_tree(path), "zarr", options);
}

}  // namespace cellfeed::format::zarr
