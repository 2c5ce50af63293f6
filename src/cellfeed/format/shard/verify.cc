#include "cellfeed/format/shard/verify.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <tuple>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/cells_file_layout.h"
#include "cellfeed/format/shard/dense_file_layout.h"
#include "cellfeed/format/shard/file_names.h"
#include "cellfeed/format/shard/shard_directory.h"
#include "cellfeed/io/atomic_file.h"
#include "cellfeed/io/local_file.h"

namespace cellfeed::format::shard {
namespace {

namespace fs = std::filesystem;
constexpr std::int64_t kReadBytes = 1 << 20;

// Collects what tasks on several threads find. Thread-safe.
class Findings {
 public:
  Findings(const VerifyProgress& progress, std::int64_t bytes_total)
      : progress_(progress), bytes_total_(bytes_total) {}

  void add(Damage damage) {
    const std::lock_guard lock(mutex_);
    damages_.push_back(std::move(damage));
  }
  void advance(std::int64_t bytes) {
    if (!progress_) return;
    const std::lock_guard lock(mutex_);
    bytes_done_ += bytes;
    progress_(bytes_done_, bytes_total_);
  }
  std::vector<Damage> take() {
    std::sort(damages_.begin(), damages_.end(), [](const Damage& a, const Damage& b) {
      return std::tie(a.shard, a.file, a.begin) < std::tie(b.shard, b.file, b.begin);
    });
    return std::move(damages_);
  }

 private:
  std::mutex mutex_;
  const VerifyProgress& progress_;
  std::int64_t bytes_total_;
  std::int64_t bytes_done_ = 0;
  std::vector<Damage> damages_;
};

// One file under check, opened anew by each task, so that many shards need few descriptors. Read
// with pread, so that a bad sector is an error and not a signal.
class CheckedFile {
 public:
  CheckedFile(std::string name, std::int64_t shard, std::string path, Findings& findings)
      : name_(std::move(name)),
        shard_(shard),
        path_(std::move(path)),
        findings_(findings),
        size_(open()->size()) {}

  std::int64_t size() const { return size_; }
  const std::string& path() const { return path_; }
  void report(std::int64_t begin, std::int64_t end, std::string what,
              std::int64_t segment = -1) const {
    findings_.add({.file = name_,
                   .shard = shard_,
                   .segment = segment,
                   .begin = begin,
                   .end = end,
                   .what = std::move(what)});
  }
  std::vector<std::byte> read(std::int64_t begin, std::int64_t end) const {
    std::vector<std::byte> bytes(static_cast<std::size_t>(end - begin));
    open()->read(begin, bytes);
    findings_.advance(end - begin);
    return bytes;
  }
  // Calls consume with the bytes [begin, end), a piece at a time.
  template <typename Consume>
  void scan(std::int64_t begin, std::int64_t end, const Consume& consume) const {
    std::vector<std::byte> piece(
        static_cast<std::size_t>(std::min(kReadBytes, std::max<std::int64_t>(end - begin, 0))));
    if (begin >= end) return;
    const auto source = open();
    for (std::int64_t at = begin; at < end; at += kReadBytes) {
      const std::span<std::byte> part(piece.data(),
                                      static_cast<std::size_t>(std::min(kReadBytes, end - at)));
      source->read(at, part);
      consume(std::span<const std::byte>(part), at);
      findings_.advance(static_cast<std::int64_t>(part.size()));
    }
  }
  std::uint64_t checksum(std::int64_t begin, std::int64_t end) const {
    const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> hash(XXH3_createState(),
                                                                               XXH3_freeState);
    XXH3_64bits_reset(hash.get());
    scan(begin, end, [&](std::span<const std::byte> bytes, std::int64_t) {
      XXH3_64bits_update(hash.get(), bytes.data(), bytes.size());
    });
    return XXH3_64bits_digest(hash.get());
  }
  void check_zeros(std::int64_t begin, std::int64_t end, const char* what) const {
    scan(begin, end, [&](std::span<const std::byte> bytes, std::int64_t at) {
      const auto bad = std::find_if(bytes.begin(), bytes.end(),
                                    [](std::byte byte) { return byte != std::byte{0}; });
      if (bad != bytes.end())
        report(at + (bad - bytes.begin()), at + (bad - bytes.begin()) + 1,
               fmt::format("{} must be zero", what));
    });
  }

 private:
  std::unique_ptr<io::ByteSource> open() const {
    return io::open_local_file(path_, {.access = io::FileAccess::kPread, .threads = 1});
  }

  std::string name_;
  std::int64_t shard_;
  std::string path_;
  Findings& findings_;
  std::int64_t size_;
};

using Task = std::function<void()>;

std::string mismatch(std::uint64_t found, std::uint64_t expected) {
  return fmt::format("the checksum is {:016x} where {:016x} was written", found, expected);
}

void check_range_checksum(const CheckedFile& file, std::int64_t begin, std::int64_t end,
                          std::uint64_t expected, const std::string& part,
                          std::int64_t segment = -1) {
  const std::uint64_t found = file.checksum(begin, end);
  if (found != expected)
    file.report(begin, end, fmt::format("{}: {}", part, mismatch(found, expected)), segment);
}

// Header and tables at once; the segments become tasks. directory: to name exchanged files; may be
// null.
void plan_cells(const std::shared_ptr<const CheckedFile>& file, const ShardEntry& shard,
                const ShardDirectory* directory, std::vector<Task>& tasks) {
  const auto bytes = file->read(0, std::min(file->size(), kHeaderBytes));
  CellsHeader header;
  try {
    header = parse_header(bytes, file->size(), file->path());
  } catch (const Error& error) {
    return file->report(0, std::max<std::int64_t>(file->size(), 1), error.what());
  }
  if (header.checksum != shard.matrix.checksum) {
    const ShardEntry* other =
        directory != nullptr ? directory->find_by_checksum(header.checksum) : nullptr;
    file->report(0, std::max<std::int64_t>(file->size(), 1),
                 other ? fmt::format("this file is shard {} ({}): exchanged", other->shard,
                                     other->matrix.name)
                       : std::string("not the file that the manifest describes"));
  }
  // Before the segments are taken from it, the table has to be whole.
  const std::int64_t table_begin = header.segment_table_offset();
  const auto table = file->read(table_begin, header.file_bytes());
  const bool table_is_whole = checksum_bytes(table) == header.segment_table_checksum;
  if (!table_is_whole)
    file->report(
        table_begin, header.file_bytes(),
        "the segment table: " + mismatch(checksum_bytes(table), header.segment_table_checksum));
  tasks.push_back([file, header] {
    file->check_zeros(kHeaderBytes, kRecordsOffset, "bytes behind the header");
    file->check_zeros(kRecordsOffset + header.records_bytes, header.row_table_offset(),
                      "padding behind the last record");
    check_range_checksum(*file, header.row_table_offset(), header.segment_table_offset(),
                         header.row_table_checksum, "the row table");
  });
  std::int64_t next = 0;
  for (std::int64_t i = 0; table_is_whole && i < header.n_segments; ++i) {
    SegmentEntry segment;
    std::memcpy(&segment, table.data() + i * kSegmentEntryBytes, sizeof(segment));
    const auto begin = static_cast<std::int64_t>(segment.offset);
    if (begin != next || segment.length > static_cast<std::uint64_t>(header.records_bytes - begin))
      return file->report(table_begin + i * kSegmentEntryBytes,
                          table_begin + (i + 1) * kSegmentEntryBytes,
                          "the segments do not follow one another", i);
    next = begin + static_cast<std::int64_t>(segment.length);
    tasks.push_back([file, segment, i, begin, next] {
      check_range_checksum(*file, kRecordsOffset + begin, kRecordsOffset + next, segment.checksum,
                           fmt::format("segment {} (cells {} to {} of the shard)", i,
                                       segment.first_row, segment.first_row + segment.n_rows),
                           i);
    });
  }
  if (table_is_whole && next != header.records_bytes)
    file->report(table_begin, header.file_bytes(), "the segments do not cover all records");
}

// The checksums at once; the blocks become tasks, many at a time.
void plan_dense(const std::shared_ptr<const CheckedFile>& file, const ShardEntry& shard,
                std::int64_t n_genes, std::vector<Task>& tasks) {
  constexpr std::int64_t kTaskBytes = 16 << 20;
  std::optional<DenseLayout> layout;
  const auto header_at = [&](std::int64_t begin) {
    return file->read(std::min(begin, file->size()),
                      std::min(begin + kNpyHeaderBytes, file->size()));
  };
  try {
    layout.emplace(shard.n_cells, n_genes, file->path());
    check_dense_file(*layout, header_at(0), header_at(layout->values_end), file->size(),
                     file->path());
  } catch (const Error& error) {
    return file->report(0, std::max<std::int64_t>(file->size(), 1), error.what());
  }
  const auto bytes = file->read(layout->checksums_begin, layout->file_bytes);
  if (checksum_bytes(bytes) != shard.matrix.checksum)
    return file->report(layout->checksums_begin, layout->file_bytes,
                        "the checksums of the rows, by which the manifest knows the file: " +
                            mismatch(checksum_bytes(bytes), shard.matrix.checksum));
  const auto checksums = std::make_shared<std::vector<std::uint64_t>>(layout->n_blocks);
  if (!bytes.empty()) std::memcpy(checksums->data(), bytes.data(), bytes.size());
  const std::int64_t block_bytes = layout->rows_per_block * layout->row_bytes;
  const std::int64_t step =
      std::max<std::int64_t>(1, kTaskBytes / std::max<std::int64_t>(1, block_bytes));
  for (std::int64_t first = 0; first < layout->n_blocks; first += step)
    tasks.push_back([file, checksums, layout, first, step] {
      for (std::int64_t i = first; i < std::min(layout->n_blocks, first + step); ++i)
        check_range_checksum(
            *file, layout->block_begin(i), layout->block_end(i), (*checksums)[i],
            fmt::format("rows {} to {} of the shard", i * layout->rows_per_block,
                        std::min(layout->n_rows, (i + 1) * layout->rows_per_block)));
    });
}

void plan_whole_file(const std::shared_ptr<const CheckedFile>& file, const FileEntry& entry,
                     std::vector<Task>& tasks) {
  if (file->size() != entry.bytes)
    return file->report(
        0, std::max(file->size(), entry.bytes),
        fmt::format("{} bytes where the manifest says {}", file->size(), entry.bytes));
  tasks.push_back([file, expected = entry.checksum] {
    check_range_checksum(*file, 0, file->size(), expected, "the file");
  });
}

class Verification {
 public:
  Verification(const std::string& dir, const ShardDirectory& directory,
               const VerifyProgress& progress)
      : dir_(dir), directory_(directory), findings_(progress, total_bytes(directory.manifest())) {}

  std::vector<Damage> run(const ParallelFor& parallel) {
    const Manifest& manifest = directory_.manifest();
    if (const auto file = open(manifest.genes, -1)) plan_whole_file(file, manifest.genes, tasks_);
    for (const ShardEntry& shard : manifest.shards) plan_shard(shard);
    report_unlisted_files();
    parallel(static_cast<std::int64_t>(tasks_.size()), [&](std::int64_t i) { tasks_[i](); });
    return findings_.take();
  }

 private:
  static std::int64_t total_bytes(const Manifest& manifest) {
    std::int64_t total = manifest.genes.bytes;
    for (const auto& shard : manifest.shards)
      total += shard.matrix.bytes + shard.obs.bytes + shard.fixed_obs.bytes;
    return total;
  }

  // Null, and reported, when it is missing or cannot be opened.
  std::shared_ptr<const CheckedFile> open(const FileEntry& entry, std::int64_t shard) {
    names_.insert(entry.name);
    try {
      return std::make_shared<const CheckedFile>(entry.name, shard, directory_.path_of(entry),
                                                 findings_);
    } catch (const Error& error) {
      findings_.add({.file = entry.name,
                     .shard = shard,
                     .segment = -1,
                     .begin = 0,
                     .end = entry.bytes,
                     .what = error.what()});
      return nullptr;
    }
  }

  void plan_shard(const ShardEntry& shard) {
    if (const auto file = open(shard.matrix, shard.shard)) {
      if (directory_.manifest().layout == Layout::kPacked)
        plan_cells(file, shard, &directory_, tasks_);
      else
        plan_dense(file, shard, directory_.manifest().n_genes, tasks_);
    }
    for (const auto* entry : {&shard.obs, &shard.fixed_obs})
      if (const auto file = open(*entry, shard.shard)) plan_whole_file(file, *entry, tasks_);
  }

  // Files of the user's own are none of our business, nor is what a writer left or is writing now:
  // temporary files, the journal, and files of another generation.
  void report_unlisted_files() {
    const auto own = generation_of(directory_.manifest().genes.name);
    for (const auto& entry : fs::directory_iterator(dir_)) {
      const std::string name = entry.path().filename().string();
      if (generation_of(name) != own || !name.starts_with("shard_") || names_.contains(name))
        continue;
      findings_.add({.file = name,
                     .shard = -1,
                     .segment = -1,
                     .begin = 0,
                     .end = 0,
                     .what = "not in the manifest: remove it, or restore the manifest it belongs "
                             "to"});
    }
  }

  const std::string& dir_;
  const ShardDirectory& directory_;
  Findings findings_;
  std::vector<Task> tasks_;
  std::set<std::string> names_;
};

}  // namespace

std::vector<Damage> verify_shard_dir(const std::string& dir, const VerifyProgress& progress,
                                     const ParallelFor& parallel) {
  std::optional<ShardDirectory> directory;
  try {
    directory.emplace(dir, ShardDirectoryOptions{.reads_genes = false});
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorruptData) throw;
    return {{.file = kManifestName,
             .shard = -1,
             .segment = -1,
             .begin = 0,
             .end = 0,
             .what = error.what()}};
  }
  return Verification(dir, *directory, progress).run(parallel);
}

namespace {

// Genes of a dense file, which follow from its length: checksums and headers only add to the
// values.
std::int64_t dense_genes(const ShardEntry& shard) {
  const auto& file = shard.matrix;
  const std::int64_t n_cells = std::max<std::int64_t>(shard.n_cells, 1);
  std::int64_t n_genes = file.bytes / n_cells / static_cast<std::int64_t>(sizeof(float));
  while (n_genes > 0 && DenseLayout(shard.n_cells, n_genes, file.name).file_bytes > file.bytes)
    --n_genes;
  return n_genes;
}

}  // namespace

std::vector<Damage> verify_shard(const std::string& dir, const ShardEntry& shard) {
  const VerifyProgress silent;
  Findings findings(silent, 0);
  std::vector<Task> tasks;
  const auto open = [&](const FileEntry& entry) {
    return std::make_shared<const CheckedFile>(entry.name, shard.shard,
                                               (fs::path(dir) / entry.name).string(), findings);
  };
  try {
    const auto matrix = open(shard.matrix);
    if (shard.matrix.name.ends_with(".npy"))
      plan_dense(matrix, shard, dense_genes(shard), tasks);
    else
      plan_cells(matrix, shard, nullptr, tasks);
    for (const auto* entry : {&shard.obs, &shard.fixed_obs})
      plan_whole_file(open(*entry), *entry, tasks);
    for (const Task& task : tasks) task();
  } catch (const Error& error) {
    findings.add({.file = shard.matrix.name,
                  .shard = shard.shard,
                  .segment = -1,
                  .begin = 0,
                  .end = shard.matrix.bytes,
                  .what = error.what()});
  }
  return findings.take();
}

}  // namespace cellfeed::format::shard
