// open_stores: which format a path holds, told by its content.
#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <span>
#include <string_view>

#include "cellfeed/base/error.h"
#include "cellfeed/base/nearest_name.h"
#include "cellfeed/exec/thread_pool.h"
#include "cellfeed/format/cells_alone.h"
#include "cellfeed/format/entry_store.h"
#include "cellfeed/format/h5_file.h"
#include "cellfeed/format/h5ad/h5ad_store.h"
#include "cellfeed/format/h5ad/obs_store.h"
#include "cellfeed/format/row_store.h"
#include "cellfeed/format/shard/manifest.h"
#include "cellfeed/format/shard/partial_manifest.h"
#include "cellfeed/format/shard/shard_store.h"
#include "cellfeed/format/tenx/mtx_files.h"
#include "cellfeed/format/tenx/mtx_store.h"
#include "cellfeed/format/tenx/tenx_file.h"
#include "cellfeed/format/tenx/tenx_store.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::format {
namespace {
namespace fs = std::filesystem;

// Of remote files, each of which waits for its round trips.
constexpr int kStoresOpenedAtOnce = 32;

using Stores = std::vector<std::unique_ptr<RowStore>>;

void refuse_genome(const std::string& path, const OpenOptions& options) {
  if (!options.genome.empty())
    throw_error(ErrorKind::kInvalidArgument, path,
                "genome is for 10x .h5 files, which this is not: leave it out");
}

void refuse_tenx_options(const std::string& path, const OpenOptions& options) {
  refuse_genome(path, options);
  if (!options.feature_type.empty())
    throw_error(ErrorKind::kInvalidArgument, path,
                "feature_type is for 10x files, which this is not: leave it out");
}

Stores with_rows(std::unique_ptr<RowStore> store, const OpenOptions& options) {
  if (options.layer == kNoLayer) store = leave_out_matrix(std::move(store));
  // Of thousands of small files each would keep most of its bytes mapped: they come back when read.
  store->release_pages();
  if (dynamic_cast<const EntryStore*>(store.get()) != nullptr)
    return make_rows(std::unique_ptr<EntryStore>(static_cast<EntryStore*>(store.release())),
                     options);
  Stores stores;
  stores.push_back(std::move(store));
  return stores;
}

// What a path holds, of which the matrix is left out where none is wanted.
OpenOptions of_any_matrix(OpenOptions options) {
  if (options.layer == kNoLayer) options.layer = "X";
  return options;
}

Stores open_matrix_market(const std::string& path, const OpenOptions& options) {
  refuse_genome(path, options);
  return with_rows(tenx::open_mtx(path, of_any_matrix(options)), options);
}

Stores open_directory(const std::string& path, const OpenOptions& options) {
  const fs::path directory(path);
  const auto has = [&](const char* name) { return io::exists((directory / name).string()); };
  // An unfinished conversion too: opening says how to continue it.
  for (const char* marker : {shard::kManifestName, shard::kPartialManifestName})
    if (has(marker)) {
      refuse_tenx_options(path, options);
      auto stores = shard::open_shards(path, of_any_matrix(options));
      return options.layer == kNoLayer ? leave_out_matrices(std::move(stores)) : std::move(stores);
    }
  for (const char* marker : {".zgroup", ".zattrs", ".zarray", "zarr.json"})
    if (has(marker))
      throw Error(ErrorKind::kUnsupported,
                  "zarr stores are not supported yet; write the data as .h5ad with "
                  "anndata (adata.write_h5ad)",
                  path);
  if (tenx::is_mtx(path)) return open_matrix_market(path, options);
  throw Error(ErrorKind::kUnsupported,
              "a directory without shard_metadata.json is not a shard directory, and without "
              "matrix.mtx none of 10x; pass one made by `cellfeed shard`, or the .h5ad files "
              "themselves",
              path);
}

[[noreturn]] void throw_missing(const std::string& path) {
  const fs::path wanted(path);
  std::vector<std::string> names, stems;  // an extension in common makes no two names alike
  const std::string folder = wanted.has_parent_path() ? wanted.parent_path().string() : ".";
  if (io::is_directory(folder)) names = io::Directory(folder).names();
  for (const std::string& name : names) stems.push_back(fs::path(name).stem().string());
  const std::string stem = nearest_name(wanted.stem().string(), stems);
  const auto place = std::find(stems.begin(), stems.end(), stem) - stems.begin();
  const std::string nearest = stem.empty() ? "" : names[static_cast<std::size_t>(place)];
  throw Error(ErrorKind::kNotFound,
              fmt::format("there is no such file or directory{}",
                          nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest)),
              path);
}

void refuse_parquet(const std::string& path) {
  const auto file = io::open_file(path, {.access = io::FileAccess::kPread, .threads = 1});
  std::array<char, 4> start{};
  if (file->size() < std::ssize(start)) return;
  file->read(0, std::as_writable_bytes(std::span(start)));
  if (std::string_view(start.data(), start.size()) == "PAR1")
    throw Error(ErrorKind::kUnsupported,
                "Parquet files are not supported yet; write the data as .h5ad with anndata "
                "(adata.write_h5ad)",
                path);
}

}  // namespace

Stores open_stores(const std::string& path, const OpenOptions& options) {
  constexpr std::array<std::string_view, 5> kAccess{"auto", "map", "pread", "uring", "direct"};
  if (std::find(kAccess.begin(), kAccess.end(), options.access) == kAccess.end())
    throw_invalid("access must be \"auto\", \"map\", \"pread\", \"uring\" or \"direct\": '{}'",
                  options.access);
  if (options.verify != "always" && options.verify != "never")
    throw_invalid("verify must be \"always\" or \"never\": '{}'", options.verify);
  const io::PathStatus status = io::status_of(path);
  if (!status.is_there()) throw_missing(path);
  if (status.is_directory()) return open_directory(path, options);
  // Looking into a pipe would wait for a writer.
  if (!status.is_file())
    throw_error(ErrorKind::kIo, path, "is not a regular file; copy its contents to one");
  if (tenx::is_mtx(path)) return open_matrix_market(path, options);
  refuse_parquet(path);
  // Opening says what is wrong with a file that is not HDF5: empty, a Git LFS pointer, another
  // format.
  auto file = std::make_unique<H5File>(path, options.access != "map", options.allow_external);
  if (tenx::is_tenx(file->hdf5()))
    return with_rows(tenx::open_tenx(std::move(file), of_any_matrix(options)), options);
  refuse_tenx_options(path, options);
  if (options.layer == kNoLayer) {
    Stores cells;
    cells.push_back(h5ad::open_obs(std::move(file)));
    return cells;
  }
  return with_rows(h5ad::open_h5ad(std::move(file), options), options);
}

Stores open_stores(const std::vector<std::string>& paths, const OpenOptions& options) {
  std::vector<Stores> of_paths(paths.size());
  const bool is_local = std::ranges::all_of(paths, io::is_local);
  std::mutex mutex;  // one matrix at a time is turned into rows
  OpenOptions each = options;
  if (options.row_maker && !is_local)
    each.row_maker = [&](std::unique_ptr<EntryStore> entries, const OpenOptions& of_path) {
      const std::scoped_lock lock(mutex);
      return options.row_maker(std::move(entries), of_path);
    };
  const auto open_one = [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    of_paths[at] = open_stores(paths[at], each);
  };
  if (is_local)
    for (std::int64_t i = 0; i < std::ssize(paths); ++i) open_one(i);
  else
    exec::shared_pool(kStoresOpenedAtOnce)->parallel_for(std::ssize(paths), open_one);
  Stores all;
  for (Stores& of_path : of_paths) std::ranges::move(of_path, std::back_inserter(all));
  return all;
}

}  // namespace cellfeed::format
