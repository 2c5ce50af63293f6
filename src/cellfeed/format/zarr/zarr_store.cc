#include "cellfeed/format/zarr/zarr_store.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/format/anndata/anndata_store.h"
#include "cellfeed/format/anndata/layers.h"
#include "cellfeed/format/anndata/sub_tree.h"
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

constexpr const char* kMetadataKeys[] = {"zarr.json", ".zgroup", ".zattrs", ".zarray"};

// All that is read for the rows of a matrix, obs and var. root: where the AnnData lies.
io::FilesBelow files_of_matrix(const std::string& root, const std::string& layer) {
  const std::string above = root.empty() ? "" : root + "/";
  io::FilesBelow files{.names = {".zmetadata"}, .folders = {above + "obs", above + "uns"}};
  for (const char* key : kMetadataKeys) files.names.emplace_back(key);
  for (const std::string& path : anndata::places_of_layer(layer)) {
    files.folders.push_back(above + cellfeed::zarr::Hierarchy::as_written(path));
    if (const auto var = anndata::var_path(path)) files.folders.push_back(above + *var);
  }
  return files;
}

// Null where nothing is asked for, or the folder cannot be listed.
std::shared_ptr<const io::SeenFiles> look_at_files(const std::string& path,
                                                   const OpenOptions& options) {
  if (!options.looks_at_files || options.layer == kNoLayer || !io::is_directory(path))
    return nullptr;
  try {
    return io::SeenFiles::look(
        path, files_of_matrix(anndata::find_anndata(*open_tree(path), options.choice.modality),
                              options.layer));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnsupported) throw;
    return nullptr;
  }
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

std::unique_ptr<ZarrTree> open_tree(const std::string& path,
                                    std::shared_ptr<const io::SeenFiles> seen) {
  const bool is_file = io::status_of(path).is_file();
  return std::make_unique<ZarrTree>(
      is_file ? cellfeed::zarr::open_zip_store(path)
              : cellfeed::zarr::open_directory_store(path, std::move(seen)));
}

std::unique_ptr<RowStore> open_zarr(const std::string& path, const OpenOptions& options) {
  return anndata::open_anndata(open_tree(path, look_at_files(path, options)), "zarr", options);
}

}  // namespace cellfeed::format::zarr
