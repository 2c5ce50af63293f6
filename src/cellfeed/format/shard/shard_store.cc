#include "cellfeed/format/shard/shard_store.h"

#include <arrow/api.h>

#include <filesystem>
#include <optional>
#include <utility>

#include "cellfeed/base/argument_text.h"
#include "cellfeed/base/error.h"
#include "cellfeed/base/mix.h"
#include "cellfeed/format/open_side_by_side.h"
#include "cellfeed/format/shard/dense_rows.h"
#include "cellfeed/format/shard/obs/shard_obs.h"
#include "cellfeed/format/shard/packed_rows.h"
#include "cellfeed/format/shard/partial_manifest.h"
#include "cellfeed/format/shard/shard_directory.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::format::shard {
namespace {

// What keeps NVMe disks busy. As deep as a virtual disk's queue (256) the kernel's locks cost more
// than depth gains.
constexpr int kQueueDepth = 96;

using DirectoryPtr = std::shared_ptr<const ShardDirectory>;

// One matrix of a shard, the first or another.
struct MatrixOfShard {
  std::string layer;
  Layout layout = Layout::kPacked;
  std::int64_t n_cells = 0;
  std::int64_t n_cols = 0;
  std::int64_t nnz = 0;
  DType value_dtype = DType::kF32;
  FileEntry file;
};

// m: of the manifest's matrices; empty: the first.
MatrixOfShard matrix_of(const Manifest& manifest, const ShardEntry& shard,
                        std::optional<std::size_t> m) {
  if (!m)
    return {.layer = "X",
            .layout = manifest.layout,
            .n_cells = shard.n_cells,
            .n_cols = manifest.n_genes,
            .nnz = shard.nnz,
            .value_dtype = manifest.value_dtype,
            .file = shard.matrix};
  const MatrixEntry& entry = manifest.matrices[*m];
  return {.layer = entry.name,
          .layout = entry.layout,
          .n_cells = shard.n_cells,
          .n_cols = entry.n_cols,
          .nnz = shard.matrices[*m].nnz,
          .value_dtype = entry.value_dtype,
          .file = shard.matrices[*m].file};
}

StoreInfo make_info(const ShardDirectory& directory, const ShardEntry& shard,
                    const MatrixOfShard& matrix) {
  const bool dense = matrix.layout == Layout::kDense;
  return {.path = directory.path_of(matrix.file),
          .format = "shard",
          .layer = matrix.layer,
          .n_rows = shard.n_cells,
          .n_cols = matrix.n_cols,
          .nnz = matrix.nnz,
          .value_dtype = matrix.value_dtype,
          .is_dense = dense,
          .compression = dense ? "none" : "packed",
          .rows_per_chunk = 1,
          .bytes_on_disk = matrix.file.bytes + shard.obs.bytes + shard.fixed_obs.bytes};
}

// Names of the columns of obsm: their own, or numbers.
std::shared_ptr<const matrix::GeneAxis> columns_of(const MatrixEntry& matrix) {
  auto axis = std::make_shared<matrix::GeneAxis>();
  axis->names = matrix.columns;
  if (axis->names.empty()) axis->names = column_numbers(matrix.n_cols);
  return axis;
}

std::shared_ptr<arrow::Table> table_of(const matrix::GeneAxis& axis) {
  arrow::StringBuilder builder;
  std::shared_ptr<arrow::Array> names;
  arrow::Status status = builder.AppendValues(axis.names);
  if (status.ok()) status = builder.Finish(&names);
  if (!status.ok()) throw Error(ErrorKind::kInternal, status.ToString());
  return arrow::Table::Make(arrow::schema({arrow::field("_index", arrow::utf8())}), {names});
}

// What packed and dense shards have in common: everything but the rows.
class ShardStore : public RowStore {
 public:
  // columns: of one of obsm, else null.
  ShardStore(DirectoryPtr directory, const ShardEntry& shard, const MatrixOfShard& matrix,
             std::shared_ptr<const matrix::GeneAxis> columns)
      : directory_(directory),
        shard_(shard),
        obs_(directory, shard),
        info_(make_info(*directory, shard, matrix)),
        checksum_(matrix.file.checksum),
        columns_(std::move(columns)) {}

  const StoreInfo& info() const override { return info_; }
  const matrix::GeneAxis& genes() const override {
    return columns_ ? *columns_ : directory_->genes();
  }
  std::vector<std::string> obs_names() const override { return obs_.names(); }
  matrix::FixedColumn obs_column(const std::string& name) const override {
    return obs_.column(name);
  }
  std::shared_ptr<arrow::Table> read_obs(std::int64_t begin, std::int64_t end) const override {
    return obs_.read(begin, end);
  }
  std::optional<matrix::FixedColumn> known_library_sizes() const override {
    if (info_.layer == "X") return obs_.known_library_sizes();
    if (!columns_ && keeps_library_sizes(directory_->manifest(), shard_))
      throw_error(
          ErrorKind::kUnsupported, info_.path,
          "the totals of cells in '{}' are not known: these shards leave genes out, and keep "
          "totals of X alone; write shards with this layer as their X",
          info_.layer);
    return std::nullopt;
  }
  std::shared_ptr<arrow::Table> read_var() const override {
    return columns_ ? table_of(*columns_) : directory_->var();
  }
  // The record is of X.
  Processing processing() const override {
    if (info_.layer != "X") return {};
    return read_processing(directory_->manifest().processing_json, directory_->dir());
  }
  std::uint64_t fingerprint() const override {
    std::uint64_t hash = checksum_;
    for (const std::uint64_t part :
         {shard_.obs.checksum, shard_.fixed_obs.checksum, directory_->manifest().gene_fingerprint})
      hash = mix(hash, part);
    return hash;
  }

 private:
  DirectoryPtr directory_;
  ShardEntry shard_;
  ShardObs obs_;
  StoreInfo info_;
  std::uint64_t checksum_;
  std::shared_ptr<const matrix::GeneAxis> columns_;
};

class PackedShard final : public ShardStore {
 public:
  PackedShard(DirectoryPtr directory, const ShardEntry& shard, const MatrixOfShard& matrix,
              std::shared_ptr<const matrix::GeneAxis> columns,
              std::shared_ptr<const CellsFile> file)
      : ShardStore(std::move(directory), shard, matrix, std::move(columns)),
        file_(std::move(file)) {}
  std::unique_ptr<FetchedRows> begin(std::span<const std::int64_t> rows,
                                     const ReadContext&) const override {
    return begin_packed(file_, rows);
  }
  ReadPlan plan(std::span<const std::int64_t> rows) const override {
    return {.bytes_held = plan_packed_bytes(*file_, rows),
            .read_ahead_bytes = file_->costs().in_flight_bytes};
  }
  std::optional<PackedRecords> packed_records(std::int64_t begin, std::int64_t end) const override {
    return read_packed_records(*file_, begin, end);
  }
  void release_pages() const override { file_->release_pages(); }

 private:
  std::shared_ptr<const CellsFile> file_;
};

class DenseShard final : public ShardStore {
 public:
  DenseShard(DirectoryPtr directory, const ShardEntry& shard, const MatrixOfShard& matrix,
             std::shared_ptr<const matrix::GeneAxis> columns, std::shared_ptr<const DenseFile> file)
      : ShardStore(std::move(directory), shard, matrix, std::move(columns)),
        file_(std::move(file)) {}
  std::unique_ptr<FetchedRows> begin(std::span<const std::int64_t> rows,
                                     const ReadContext& context) const override {
    return begin_dense(file_, rows, context);
  }
  ReadPlan plan(std::span<const std::int64_t> rows) const override {
    return {.bytes_held = plan_dense_bytes(*file_, rows),
            .read_ahead_bytes = file_->costs().in_flight_bytes};
  }
  void release_pages() const override { file_->release_pages(); }

 private:
  std::shared_ptr<const DenseFile> file_;
};

// The header's checksum covers the tables and these cover the records, so equal checksums are equal
// files.
void check_is_matrix(const ShardDirectory& directory, const MatrixOfShard& matrix,
                     const CellsHeader& header, const std::string& path) {
  directory.check_identity(matrix.file, header.checksum);
  if (header.n_cells != matrix.n_cells || header.nnz != matrix.nnz ||
      header.n_genes != matrix.n_cols || header.value_dtype != matrix.value_dtype)
    throw_error(
        ErrorKind::kCorruptData, path,
        "holds {} cells, {} genes and {} non-zeros of {}, the manifest says {}, {}, {} and {}",
        header.n_cells, header.n_genes, header.nnz, dtype_name(header.value_dtype), matrix.n_cells,
        matrix.n_cols, matrix.nnz, dtype_name(matrix.value_dtype));
}

// Null for "auto" and "map", where records are read where they are mapped, and for files that are
// read in one way only.
std::unique_ptr<io::ByteSource> open_reads(const std::string& path, const std::string& access) {
  if (access == "auto" || access == "map" || !io::is_local(path)) return nullptr;
  io::LocalFileOptions options{.access = io::FileAccess::kPread, .random_access = true};
  if (access == "pread") return io::open_file(path, options);
  options.access = io::FileAccess::kUring;
  options.queue_depth = kQueueDepth;
  options.direct = access == "direct";
  if (access == "uring" || access == "direct") return io::open_file(path, options);
  throw_invalid("access must be auto, map, pread, uring or direct, not '{}'", access);
}

class ShardOpener {
 public:
  ShardOpener(const std::string& dir, const OpenOptions& options)
      : options_(options),
        directory_(std::make_shared<const ShardDirectory>(
            dir, ShardDirectoryOptions{.reads_genes = !is_obsm(options.layer),
                                       .verifies = options.verify != "never"})),
        matrix_(find_matrix(*directory_, options.layer)) {
    if (is_obsm(options.layer)) columns_ = columns_of(directory_->manifest().matrices.at(*matrix_));
  }

  std::vector<std::unique_ptr<RowStore>> open() const {
    const std::vector<ShardEntry>& shards = directory_->manifest().shards;
    std::vector<std::unique_ptr<RowStore>> stores(shards.size());
    open_side_by_side(std::ssize(shards), io::is_local(directory_->dir()), [&](std::int64_t i) {
      const auto at = static_cast<std::size_t>(i);
      stores[at] = open(shards[at]);
    });
    return stores;
  }

 private:
  // The number among the further matrices; empty: the first.
  static std::optional<std::size_t> find_matrix(const ShardDirectory& directory,
                                                const std::string& layer);
  std::unique_ptr<RowStore> open(const ShardEntry& shard) const;
  std::shared_ptr<const DenseFile> open_dense(const MatrixOfShard& matrix,
                                              std::shared_ptr<const io::ByteSource> source,
                                              bool reads_ahead) const;

  const OpenOptions& options_;
  const DirectoryPtr directory_;
  const std::optional<std::size_t> matrix_;
  std::shared_ptr<const matrix::GeneAxis> columns_;
};

std::shared_ptr<const DenseFile> ShardOpener::open_dense(
    const MatrixOfShard& matrix, std::shared_ptr<const io::ByteSource> source,
    bool reads_ahead) const {
  DenseFileOptions options{.reads_ahead = reads_ahead};
  if (directory_->verifies())
    options.check_identity = [directory = directory_, file = matrix.file](std::uint64_t found) {
      directory->check_identity(file, found);
    };
  return std::make_shared<DenseFile>(std::move(source), matrix.n_cells, matrix.n_cols,
                                     std::move(options));
}

std::unique_ptr<RowStore> ShardOpener::open(const ShardEntry& shard) const {
  const MatrixOfShard matrix = matrix_of(directory_->manifest(), shard, matrix_);
  const std::string path = directory_->path_of(matrix.file);
  // Page faults read a page: what else is needed is asked for, by whoever knows the rows.
  const bool reads_ahead = options_.access != "map";
  std::shared_ptr<const io::ByteSource> source =
      io::open_file(path, {.random_access = reads_ahead, .guarded = true});
  if (matrix.layout == Layout::kDense)
    return std::make_unique<DenseShard>(directory_, shard, matrix, columns_,
                                        open_dense(matrix, std::move(source), reads_ahead));
  auto file = std::make_shared<CellsFile>(
      std::move(source), open_reads(path, options_.access),
      CellsFileOptions{.reads_ahead = reads_ahead, .verifies = directory_->verifies()});
  check_is_matrix(*directory_, matrix, file->header(), path);
  return std::make_unique<PackedShard>(directory_, shard, matrix, columns_, std::move(file));
}

std::optional<std::size_t> ShardOpener::find_matrix(const ShardDirectory& directory,
                                                    const std::string& layer) {
  if (layer == "X") return std::nullopt;
  const Manifest& manifest = directory.manifest();
  std::string known = "X";
  for (std::size_t m = 0; m < manifest.matrices.size(); ++m) {
    const std::string& name = manifest.matrices[m].name;
    if (name == layer_path(layer)) return m;
    known += ", " + name;
  }
  throw_error(ErrorKind::kNoSuchKey, directory.dir(),
              "these shards have no '{}', but {}; shards hold the layers and obsm that they were "
              "written with ({}, {})",
              layer, known, argument("layers"), argument("obsm"));
}

}  // namespace

bool is_shard_dir(const std::string& dir) {
  const DirectoryState state = shard_directory_state(dir);
  return state == DirectoryState::kFinished || state == DirectoryState::kUnfinished;
}

std::vector<std::unique_ptr<RowStore>> open_shards(const std::string& dir,
                                                   const OpenOptions& options) {
  return ShardOpener(dir, options).open();
}

}  // namespace cellfeed::format::shard
