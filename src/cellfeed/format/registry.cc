// open_stores: which format a path holds, told by its content.
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "cellfeed/base/error.h"
#include "cellfeed/format/h5ad/h5ad_store.h"
#include "cellfeed/format/row_store.h"
#include "cellfeed/format/shard/manifest.h"
#include "cellfeed/format/shard/partial_manifest.h"
#include "cellfeed/format/shard/shard_store.h"

namespace cellfeed::format {
namespace {
namespace fs = std::filesystem;

using Stores = std::vector<std::unique_ptr<RowStore>>;

Stores open_directory(const std::string& path, const OpenOptions& options) {
  const fs::path directory(path);
  std::error_code ignored;
  // An unfinished conversion too: opening says how to continue it.
  for (const char* marker : {shard::kManifestName, shard::kPartialManifestName})
    if (fs::exists(directory / marker, ignored)) return shard::open_shards(path, options);
  for (const char* marker : {".zgroup", ".zattrs", ".zarray", "zarr.json"})
    if (fs::exists(directory / marker, ignored))
      throw Error(ErrorKind::kUnsupported,
                  "zarr stores are not yet supported in this version; write the data as .h5ad with "
                  "anndata (adata.write_h5ad)",
                  path);
  throw Error(ErrorKind::kUnsupported,
              "a directory without shard_metadata.json is not a shard directory; pass one made by "
              "`cellfeed shard`, or the .h5ad files themselves",
              path);
}

}  // namespace

Stores open_stores(const std::string& path, const OpenOptions& options) {
  constexpr std::array<std::string_view, 5> kAccess{"auto", "map", "pread", "uring", "direct"};
  if (std::find(kAccess.begin(), kAccess.end(), options.access) == kAccess.end())
    throw_invalid("access must be \"auto\", \"map\", \"pread\", \"uring\" or \"direct\": '{}'",
                  options.access);
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) throw_errno(errno, path, "open");
  if (S_ISDIR(status.st_mode)) return open_directory(path, options);
  // Opening says what is wrong with a file that is not HDF5: empty, a Git LFS pointer, another
  // format.
  Stores stores;
  stores.push_back(h5ad::open_h5ad(path, options));
  return stores;
}

}  // namespace cellfeed::format
