#include "cellfeed/format/shard/shard_store.h"

#include <xxhash.h>

#include <array>
#include <filesystem>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/dense_rows.h"
#include "cellfeed/format/shard/packed_rows.h"
#include "cellfeed/format/shard/partial_manifest.h"
#include "cellfeed/format/shard/shard_directory.h"
#include "cellfeed/format/shard/shard_obs.h"
#include "cellfeed/io/local_file.h"

namespace cellfeed::format::shard {
namespace {

// What keeps NVMe disks busy. As deep as a virtual disk's queue (256) the kernel's locks cost more
// than depth gains.
constexpr int kQueueDepth = 96;

using DirectoryPtr = std::shared_ptr<const ShardDirectory>;

StoreInfo make_info(const ShardDirectory& directory, const ShardEntry& shard) {
  const Manifest& manifest = directory.manifest();
  const bool dense = manifest.layout == Layout::kDense;
  return {.path = directory.path_of(shard.matrix),
          .format = "shard",
          .layer = "X",
          .n_rows = shard.n_cells,
          .n_cols = manifest.n_genes,
          .nnz = shard.nnz,
          .value_dtype = manifest.value_dtype,
          .is_dense = dense,
          .compression = dense ? "none" : "packed",
          .rows_per_chunk = 1,
          .bytes_on_disk = shard.matrix.bytes + shard.obs.bytes + shard.fixed_obs.bytes};
}

// What packed and dense shards have in common: everything but the rows.
class ShardStore : public RowStore {
 public:
  ShardStore(DirectoryPtr directory, const ShardEntry& shard)
      : directory_(directory),
        shard_(shard),
        obs_(directory, shard),
        info_(make_info(*directory, shard)) {}

  const StoreInfo& info() const override { return info_; }
  const matrix::GeneAxis& genes() const override { return directory_->genes(); }
  std::vector<std::string> obs_names() const override { return obs_.names(); }
  matrix::FixedColumn obs_column(const std::string& name) const override {
    return obs_.column(name);
  }
  std::shared_ptr<arrow::Table> read_obs(std::int64_t begin, std::int64_t end) const override {
    return obs_.read(begin, end);
  }
  std::optional<matrix::FixedColumn> known_library_sizes() const override {
    return obs_.known_library_sizes();
  }
  std::shared_ptr<arrow::Table> read_var() const override { return directory_->var(); }
  std::uint64_t fingerprint() const override {
    const std::array<std::uint64_t, 4> parts{shard_.matrix.checksum, shard_.obs.checksum,
                                             shard_.fixed_obs.checksum,
                                             directory_->manifest().gene_fingerprint};
    return XXH3_64bits(parts.data(), sizeof(parts));
  }

 private:
  DirectoryPtr directory_;
  ShardEntry shard_;
  ShardObs obs_;
  StoreInfo info_;
};

class PackedShard final : public ShardStore {
 public:
  PackedShard(DirectoryPtr directory, const ShardEntry& shard,
              std::shared_ptr<const CellsFile> file)
      : ShardStore(std::move(directory), shard), file_(std::move(file)) {}
  std::unique_ptr<FetchedRows> begin(std::span<const std::int64_t> rows,
                                     const ReadContext&) const override {
    return begin_packed(file_, rows);
  }
  ReadPlan plan(std::span<const std::int64_t> rows) const override {
    return {.bytes_held = plan_packed_bytes(*file_, rows)};
  }
  void release_pages() const override { file_->release_pages(); }

 private:
  std::shared_ptr<const CellsFile> file_;
};

class DenseShard final : public ShardStore {
 public:
  DenseShard(DirectoryPtr directory, const ShardEntry& shard, std::shared_ptr<const DenseFile> file)
      : ShardStore(std::move(directory), shard), file_(std::move(file)) {}
  std::unique_ptr<FetchedRows> begin(std::span<const std::int64_t> rows,
                                     const ReadContext& context) const override {
    return begin_dense(file_, rows, context);
  }
  ReadPlan plan(std::span<const std::int64_t>) const override { return {}; }
  void release_pages() const override { file_->release_pages(); }

 private:
  std::shared_ptr<const DenseFile> file_;
};

// The header's checksum covers the tables and these cover the records, so equal checksums are equal
// files.
void check_is_shard(const ShardDirectory& directory, const ShardEntry& shard,
                    const CellsHeader& header, const std::string& path) {
  const Manifest& manifest = directory.manifest();
  directory.check_identity(shard.matrix, header.checksum);
  if (header.n_cells != shard.n_cells || header.nnz != shard.nnz ||
      header.n_genes != manifest.n_genes || header.value_dtype != manifest.value_dtype)
    throw_error(
        ErrorKind::kCorruptData, path,
        "holds {} cells, {} genes and {} non-zeros of {}, the manifest says {}, {}, {} and {}",
        header.n_cells, header.n_genes, header.nnz, dtype_name(header.value_dtype), shard.n_cells,
        manifest.n_genes, shard.nnz, dtype_name(manifest.value_dtype));
}

// Null for "auto" and "map": records are read where they are mapped.
std::unique_ptr<io::ByteSource> open_reads(const std::string& path, const std::string& access) {
  if (access == "auto" || access == "map") return nullptr;
  io::LocalFileOptions options{.access = io::FileAccess::kPread, .random_access = true};
  if (access == "pread") return io::open_local_file(path, options);
  options.access = io::FileAccess::kUring;
  options.queue_depth = kQueueDepth;
  options.direct = access == "direct";
  if (access == "uring" || access == "direct") return io::open_local_file(path, options);
  throw_invalid("access must be auto, map, pread, uring or direct, not '{}'", access);
}

std::unique_ptr<RowStore> open_dense(const DirectoryPtr& directory, const ShardEntry& shard,
                                     std::unique_ptr<io::ByteSource> mapped, bool reads_ahead) {
  DenseFileOptions options{.reads_ahead = reads_ahead};
  if (directory->verifies())
    options.check_identity = [directory, file = shard.matrix](std::uint64_t found) {
      directory->check_identity(file, found);
    };
  return std::make_unique<DenseShard>(
      directory, shard,
      std::make_shared<DenseFile>(std::move(mapped), shard.n_cells, directory->manifest().n_genes,
                                  std::move(options)));
}

std::unique_ptr<RowStore> open_shard(const DirectoryPtr& directory, const ShardEntry& shard,
                                     const OpenOptions& options) {
  const std::string path = directory->path_of(shard.matrix);
  // Page faults read a page: what else is needed is asked for, by whoever knows the rows.
  const bool reads_ahead = options.access != "map";
  auto mapped = io::open_local_file(path, {.random_access = reads_ahead, .guarded = true});
  if (directory->manifest().layout == Layout::kDense)
    return open_dense(directory, shard, std::move(mapped), reads_ahead);
  auto file = std::make_shared<CellsFile>(
      std::move(mapped), open_reads(path, options.access),
      CellsFileOptions{.reads_ahead = reads_ahead, .verifies = directory->verifies()});
  check_is_shard(*directory, shard, file->header(), path);
  return std::make_unique<PackedShard>(directory, shard, std::move(file));
}

}  // namespace

bool is_shard_dir(const std::string& dir) {
  const DirectoryState state = shard_directory_state(dir);
  return state == DirectoryState::kFinished || state == DirectoryState::kUnfinished;
}

std::vector<std::unique_ptr<RowStore>> open_shards(const std::string& dir,
                                                   const OpenOptions& options) {
  if (options.layer != "X")
    throw_error(ErrorKind::kNoSuchKey, dir, "no layer '{}'; shards hold one matrix, X",
                options.layer);
  const auto directory = std::make_shared<const ShardDirectory>(
      dir, ShardDirectoryOptions{.verifies = options.verify != "never"});
  std::vector<std::unique_ptr<RowStore>> stores;
  for (const ShardEntry& shard : directory->manifest().shards)
    stores.push_back(open_shard(directory, shard, options));
  return stores;
}

}  // namespace cellfeed::format::shard
