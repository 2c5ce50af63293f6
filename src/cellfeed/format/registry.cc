// open_stores: which format a path holds, told by its content.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <initializer_list>
#include <iterator>
#include <span>
#include <string_view>

#include "cellfeed/base/error.h"
#include "cellfeed/base/nearest_name.h"
#include "cellfeed/format/anndata/layers.h"
#include "cellfeed/format/anndata/matrix_list.h"
#include "cellfeed/format/anndata/sub_tree.h"
#include "cellfeed/format/cells_alone.h"
#include "cellfeed/format/entry_store.h"
#include "cellfeed/format/h5_file.h"
#include "cellfeed/format/h5ad/h5ad_store.h"
#include "cellfeed/format/matrix_list.h"
#include "cellfeed/format/open_side_by_side.h"
#include "cellfeed/format/parquet/parquet_store.h"
#include "cellfeed/format/row_store.h"
#include "cellfeed/format/shard/manifest.h"
#include "cellfeed/format/shard/partial_manifest.h"
#include "cellfeed/format/shard/shard_store.h"
#include "cellfeed/format/tenx/mtx_files.h"
#include "cellfeed/format/tenx/mtx_store.h"
#include "cellfeed/format/tenx/tenx_file.h"
#include "cellfeed/format/tenx/tenx_store.h"
#include "cellfeed/format/zarr/zarr_store.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::format {
namespace {
namespace fs = std::filesystem;

using Stores = std::vector<std::unique_ptr<RowStore>>;

Stores one_store(std::unique_ptr<RowStore> store) {
  Stores stores;
  stores.push_back(std::move(store));
  return stores;
}

// A path that is there, looked into as far as formats ask.
class GivenPath {
 public:
  GivenPath(const std::string& path, bool is_directory, const OpenOptions& options)
      : path_(path), is_directory_(is_directory), options_(options) {}

  const std::string& path() const { return path_; }
  bool is_directory() const { return is_directory_; }
  const OpenOptions& options() const { return options_; }
  bool wants_cells_alone() const { return options_.layer == kNoLayer; }
  void choose_layer(std::string layer) { options_.layer = std::move(layer); }
  // What it holds, of which the matrix is left out where none is wanted.
  OpenOptions options_of_any_matrix() const {
    OpenOptions options = options_;
    if (wants_cells_alone()) options.layer = std::string("X");
    return options;
  }
  // A directory with any of these.
  bool has_any(std::initializer_list<const char*> names) const {
    return is_directory_ && std::ranges::any_of(names, [&](const char* name) {
             return io::exists((fs::path(path_) / name).string());
           });
  }
  bool begins_with(std::string_view text) const {
    const auto file = io::open_file(path_, {.access = io::FileAccess::kPread, .threads = 1});
    if (file->size() < std::ssize(text)) return false;
    std::string start(text.size(), '\0');
    file->read(0, std::as_writable_bytes(std::span(start)));
    return start == text;
  }
  // Opening says what is wrong with a file that is not HDF5: empty, a Git LFS pointer, another
  // format.
  const H5File& hdf5() {
    if (!hdf5_) hdf5_ = std::make_unique<H5File>(path_, options_.access != "map");
    return *hdf5_;
  }
  std::unique_ptr<H5File> take_hdf5() {
    hdf5();
    return std::move(hdf5_);
  }

 private:
  const std::string& path_;
  const bool is_directory_;
  OpenOptions options_;
  std::unique_ptr<H5File> hdf5_;
};

// An unfinished conversion too: opening says how to continue it.
bool is_shards(GivenPath& given) {
  return given.has_any({shard::kManifestName, shard::kPartialManifestName});
}
std::vector<std::string> matrices_of_shards(GivenPath& given) {
  std::vector<std::string> names{"X"};
  for (const auto& matrix : shard::read_manifest(given.path()).matrices)
    names.push_back(matrix.name);
  return names;
}
Stores open_shards(GivenPath& given) {
  return shard::open_shards(given.path(), given.options_of_any_matrix());
}

bool is_zarr(GivenPath& given) { return zarr::is_zarr(given.path()); }
std::vector<std::string> matrices_of_zarr(GivenPath& given) {
  return anndata::list_matrix_paths(
      *anndata::take_anndata(zarr::open_tree(given.path()), given.options().choice.modality));
}
Stores open_zarr(GivenPath& given) {
  return one_store(zarr::open_zarr(given.path(), given.options()));
}

bool is_matrix_market(GivenPath& given) { return tenx::is_mtx(given.path()); }
Stores open_matrix_market(GivenPath& given) {
  return one_store(tenx::open_mtx(given.path(), given.options_of_any_matrix()));
}

bool is_soma(GivenPath& given) { return given.has_any({"__tiledb_group.tdb", "__schema"}); }
[[noreturn]] Stores refuse_soma(GivenPath& given) {
  throw Error(ErrorKind::kUnsupported,
              "is a TileDB-SOMA experiment, which cannot be read: write it as .h5ad "
              "(tiledbsoma.io.to_h5ad)",
              given.path());
}

bool is_any_directory(GivenPath& given) { return given.is_directory(); }
[[noreturn]] Stores refuse_directory(GivenPath& given) {
  const std::vector<std::string> names =
      io::is_local(given.path()) ? io::Directory(given.path()).names() : std::vector<std::string>();
  for (const char* manifest : {shard::kManifestName, "zarr.json", ".zgroup"})
    if (std::ranges::find(names, manifest) != names.end())
      throw_error(ErrorKind::kNotFound, given.path() + "/" + manifest,
                  "is a link, and there is nothing where it leads");
  throw Error(
      ErrorKind::kUnsupported,
      "a directory without shard_metadata.json is not a shard directory, without an .mtx file none "
      "of 10x or the like, and without zarr.json or .zgroup no zarr store; pass one made by "
      "`cellfeed shard`, or the .h5ad files themselves",
      given.path());
}

// By its name too: opening says what is wrong with one that is damaged.
bool is_parquet(GivenPath& given) {
  return given.path().ends_with(".parquet") || given.begins_with("PAR1");
}
Stores open_parquet_table(GivenPath& given) {
  return one_store(parquet_table::open_parquet(given.path(), given.options()));
}

bool is_tenx(GivenPath& given) { return tenx::is_tenx(given.hdf5().hdf5()); }
Stores open_tenx(GivenPath& given) {
  return one_store(tenx::open_tenx(given.take_hdf5(), given.options_of_any_matrix()));
}

bool is_any_file(GivenPath&) { return true; }
std::vector<std::string> matrices_of_h5ad(GivenPath& given) {
  const std::string root = anndata::find_anndata(given.hdf5(), given.options().choice.modality);
  return anndata::list_matrix_paths(anndata::SubTree(given.hdf5(), root));
}
Stores open_h5ad(GivenPath& given) {
  return one_store(h5ad::open_h5ad(given.take_hdf5(), given.options()));
}

struct KnownFormat {
  bool (*recognises)(GivenPath&);
  Stores (*open)(GivenPath&);
  // Where they lie; null: X alone.
  std::vector<std::string> (*list_matrices)(GivenPath&) = nullptr;
  bool has_feature_types = false;
  bool has_orientations = false;
  bool has_genomes = false;
  bool has_tables = false;
  bool has_modalities = false;
};

// The first that recognises a path opens it.
constexpr KnownFormat kFormats[] = {
    {is_shards, open_shards, matrices_of_shards},
    {.recognises = is_zarr,
     .open = open_zarr,
     .list_matrices = matrices_of_zarr,
     .has_modalities = true},
    {.recognises = is_matrix_market,
     .open = open_matrix_market,
     .has_feature_types = true,
     .has_orientations = true},
    {is_soma, refuse_soma},
    {is_any_directory, refuse_directory},
    {.recognises = is_parquet, .open = open_parquet_table, .has_tables = true},
    {.recognises = is_tenx, .open = open_tenx, .has_feature_types = true, .has_genomes = true},
    {.recognises = is_any_file,
     .open = open_h5ad,
     .list_matrices = matrices_of_h5ad,
     .has_modalities = true},
};

void choose_layer(const KnownFormat& format, GivenPath& given) {
  const std::vector<std::string>& choices = given.options().layer_choices;
  if (choices.empty()) return;
  std::vector<std::string> there{"X"};
  if (format.list_matrices) there = format.list_matrices(given);
  for (std::string& path : there) path = anndata::layer_name(path);
  const auto chosen = std::ranges::find_if(choices, [&](const std::string& name) {
    return std::ranges::find(there, layer_path(name)) != there.end();
  });
  if (chosen == choices.end())
    throw_error(ErrorKind::kNoSuchKey, given.path(), "has none of the layers {}; there are: {}",
                fmt::join(choices, ", "), fmt::join(there, ", "));
  given.choose_layer(*chosen);
}

void refuse_table_options(const KnownFormat& format, const GivenPath& given) {
  const TableOptions& table = given.options().choice.table;
  if (format.has_tables) return;
  for (const auto& [option, value] :
       {std::pair{"genes_column", &table.genes_column},
        std::pair{"values_column", &table.values_column}, std::pair{"var", &table.var}})
    if (!value->empty())
      throw_error(ErrorKind::kInvalidArgument, given.path(),
                  "{} is for Parquet tables of lists, which this is not: leave it out", option);
}

void refuse_other_options(const KnownFormat& format, const GivenPath& given) {
  if (!given.options().choice.genome.empty() && !format.has_genomes)
    throw_error(ErrorKind::kInvalidArgument, given.path(),
                "genome is for 10x .h5 files, which this is not: leave it out");
  if (!given.options().choice.feature_type.empty() && !format.has_feature_types)
    throw_error(ErrorKind::kInvalidArgument, given.path(),
                "feature_type is for 10x files, which this is not: leave it out");
  if (given.options().choice.transpose && !format.has_orientations)
    throw_error(ErrorKind::kInvalidArgument, given.path(),
                "transpose is for .mtx files, which this is not: leave it out");
  if (!given.options().choice.modality.empty() && !format.has_modalities)
    throw_error(ErrorKind::kInvalidArgument, given.path(), "{}", anndata::kNoMuData);
}

// Whether a name that exists may be the one that was meant: a folder, or a file of the same or a
// readable kind.
bool may_be_meant(const fs::path& name, const fs::path& wanted) {
  constexpr std::array<std::string_view, 7> kReadable{"",      ".h5ad",    ".h5mu", ".h5",
                                                      ".zarr", ".parquet", ".mtx"};
  const std::string suffix = name.extension().string();
  return suffix == wanted.extension() || std::ranges::find(kReadable, suffix) != kReadable.end();
}

[[noreturn]] void throw_missing(const std::string& path) {
  if (path.starts_with("http://") || path.starts_with("https://"))
    throw Error(ErrorKind::kNotFound,
                "there is no such file; of folders on web servers nothing can be listed, so that "
                "only single files are read there",
                path);
  const fs::path wanted(path);
  std::vector<std::string> names, stems;  // an extension in common makes no two names alike
  const std::string folder = wanted.has_parent_path() ? wanted.parent_path().string() : ".";
  if (io::is_directory(folder)) names = io::Directory(folder).names();
  std::erase_if(names, [&](const std::string& name) { return !may_be_meant(name, wanted); });
  for (const std::string& name : names) stems.push_back(fs::path(name).stem().string());
  const std::string stem = nearest_name(wanted.stem().string(), stems);
  const auto place = std::find(stems.begin(), stems.end(), stem) - stems.begin();
  const std::string nearest = stem.empty() ? "" : names[static_cast<std::size_t>(place)];
  throw Error(ErrorKind::kNotFound,
              fmt::format("there is no such file or directory{}",
                          nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest)),
              path);
}

void check_options(const OpenOptions& options) {
  constexpr std::array<std::string_view, 5> kAccess{"auto", "map", "pread", "uring", "direct"};
  if (std::ranges::find(kAccess, options.access) == kAccess.end())
    throw_invalid("access must be \"auto\", \"map\", \"pread\", \"uring\" or \"direct\": '{}'",
                  options.access);
  if (options.verify != "always" && options.verify != "never")
    throw_invalid("verify must be \"always\" or \"never\": '{}'", options.verify);
}

// What the path holds; matrices that are not stored by rows are EntryStores.
Stores open_matrices(const std::string& path, const OpenOptions& options) {
  const io::PathStatus status = io::status_of(path);
  if (!status.is_there()) throw_missing(path);
  // Looking into a pipe would wait for a writer.
  if (!status.is_directory() && !status.is_file())
    throw_error(ErrorKind::kIo, path, "is not a regular file; copy its contents to one");
  GivenPath given(path, status.is_directory(), options);
  const auto& format = *std::ranges::find_if(
      kFormats, [&](const KnownFormat& known) { return known.recognises(given); });
  refuse_other_options(format, given);
  refuse_table_options(format, given);
  choose_layer(format, given);
  Stores stores = format.open(given);
  for (auto& store : stores) {
    if (given.wants_cells_alone() && store->info().layer != kNoLayer)
      store = leave_out_matrix(std::move(store));
    // Of thousands of small files each would keep most of its bytes mapped: they come back when
    // they are read.
    store->release_pages();
  }
  return stores;
}

// On the calling thread, which may be stopped on its way.
Stores rows_of(Stores matrices, const OpenOptions& options) {
  Stores stores;
  for (auto& matrix : matrices) {
    if (dynamic_cast<const EntryStore*>(matrix.get()) == nullptr) {
      stores.push_back(std::move(matrix));
      continue;
    }
    std::unique_ptr<EntryStore> entries(static_cast<EntryStore*>(matrix.release()));
    std::ranges::move(make_rows(std::move(entries), options), std::back_inserter(stores));
  }
  return stores;
}

}  // namespace

std::vector<MatrixDescription> list_matrices(const std::string& path, const std::string& modality) {
  std::unique_ptr<const StoredTree> file;
  if (zarr::is_zarr(path))
    file = zarr::open_tree(path);
  else if (is_hdf5(path))
    file = std::make_unique<const H5File>(path, false);
  else
    return {};
  return anndata::list_matrices(*anndata::take_anndata(std::move(file), modality));
}

Stores open_stores(const std::string& path, const OpenOptions& options) {
  check_options(options);
  return rows_of(open_matrices(path, options), options);
}

Stores open_stores(const std::vector<std::string>& paths, const OpenOptions& options) {
  check_options(options);
  std::vector<Stores> of_paths(paths.size());
  open_side_by_side(std::ssize(paths), std::ranges::all_of(paths, io::is_local),
                    [&](std::int64_t i) {
                      const auto at = static_cast<std::size_t>(i);
                      of_paths[at] = open_matrices(paths[at], options);
                    });
  Stores all;
  for (Stores& matrices : of_paths)
    std::ranges::move(rows_of(std::move(matrices), options), std::back_inserter(all));
  return all;
}

}  // namespace cellfeed::format
