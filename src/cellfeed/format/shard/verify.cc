#include "cellfeed/format/shard/verify.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/cells_file_layout.h"
#include "cellfeed/format/shard/checked_file.h"
#include "cellfeed/format/shard/dense_file_layout.h"
#include "cellfeed/format/shard/file_names.h"
#include "cellfeed/format/shard/shard_directory.h"
#include "cellfeed/io/directory.h"

namespace cellfeed::format::shard {
namespace {

namespace fs = std::filesystem;

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
void plan_cells(const std::shared_ptr<const CheckedFile>& file, const FileEntry& entry,
                const ShardDirectory* directory, std::vector<Task>& tasks) {
  const auto bytes = file->read(0, std::min(file->size(), kHeaderBytes));
  CellsHeader header;
  try {
    header = parse_header(bytes, file->size(), file->path());
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kCancelled) throw;
    return file->report(0, std::max<std::int64_t>(file->size(), 1), error.what());
  }
  if (header.checksum != entry.checksum) {
    const auto other =
        directory != nullptr ? directory->find_by_checksum(header.checksum) : std::nullopt;
    file->report(
        0, std::max<std::int64_t>(file->size(), 1),
        other ? fmt::format("this file is shard {} ({}): exchanged", other->shard, other->name)
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
void plan_dense(const std::shared_ptr<const CheckedFile>& file, const FileEntry& entry,
                std::int64_t n_cells, std::int64_t n_cols, std::vector<Task>& tasks) {
  constexpr std::int64_t kTaskBytes = 16 << 20;
  std::optional<DenseLayout> layout;
  const auto header_at = [&](std::int64_t begin) {
    return file->read(std::min(begin, file->size()),
                      std::min(begin + kNpyHeaderBytes, file->size()));
  };
  try {
    layout.emplace(n_cells, n_cols, file->path());
    check_dense_file(*layout, header_at(0), header_at(layout->values_end), file->size(),
                     file->path());
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kCancelled) throw;
    return file->report(0, std::max<std::int64_t>(file->size(), 1), error.what());
  }
  const auto bytes = file->read(layout->checksums_begin, layout->file_bytes);
  if (checksum_bytes(bytes) != entry.checksum)
    return file->report(layout->checksums_begin, layout->file_bytes,
                        "the checksums of the rows, by which the manifest knows the file: " +
                            mismatch(checksum_bytes(bytes), entry.checksum));
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
    for (const FileEntry* entry : common_files(manifest))
      if (const auto file = open(*entry, -1)) plan_whole_file(file, *entry, tasks_);
    for (const ShardEntry& shard : manifest.shards) plan_shard(shard);
    report_unlisted_files();
    parallel(static_cast<std::int64_t>(tasks_.size()), [&](std::int64_t i) { tasks_[i](); });
    return findings_.take();
  }

 private:
  static std::int64_t total_bytes(const Manifest& manifest) {
    std::int64_t total = 0;
    for (const FileEntry* entry : common_files(manifest)) total += entry->bytes;
    for (const auto& shard : manifest.shards) total += bytes_of(shard);
    return total;
  }

  // Null, and reported, when it is missing or cannot be opened.
  std::shared_ptr<const CheckedFile> open(const FileEntry& entry, std::int64_t shard) {
    names_.insert(entry.name);
    try {
      return std::make_shared<const CheckedFile>(entry.name, shard, directory_.path_of(entry),
                                                 findings_);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kCancelled) throw;
      findings_.add({.file = entry.name,
                     .shard = shard,
                     .segment = -1,
                     .begin = 0,
                     .end = entry.bytes,
                     .what = error.what()});
      return nullptr;
    }
  }

  void plan_matrix(const ShardEntry& shard, const FileEntry& entry, Layout layout,
                   std::int64_t n_cols) {
    const auto file = open(entry, shard.shard);
    if (file && layout == Layout::kPacked)
      plan_cells(file, entry, &directory_, tasks_);
    else if (file)
      plan_dense(file, entry, shard.n_cells, n_cols, tasks_);
  }

  void plan_shard(const ShardEntry& shard) {
    const Manifest& manifest = directory_.manifest();
    plan_matrix(shard, shard.matrix, manifest.layout, manifest.n_genes);
    for (std::size_t m = 0; m < shard.matrices.size(); ++m)
      plan_matrix(shard, shard.matrices[m].file, manifest.matrices[m].layout,
                  manifest.matrices[m].n_cols);
    for (const auto* entry : {&shard.obs, &shard.fixed_obs})
      if (const auto file = open(*entry, shard.shard)) plan_whole_file(file, *entry, tasks_);
  }

  // Files of the user's own are none of our business, nor is what a writer left or is writing now:
  // temporary files, the journal, and files of another generation.
  void report_unlisted_files() {
    const auto own = generation_of(directory_.manifest().genes.name);
    for (const std::string& name : io::Directory(dir_).names()) {
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

std::string describe(const Damage& damage) {
  std::string text = damage.file;
  if (damage.shard >= 0) text += fmt::format(", shard {}", damage.shard);
  if (damage.segment >= 0) text += fmt::format(", segment {}", damage.segment);
  if (damage.end > damage.begin) text += fmt::format(", bytes {} to {}", damage.begin, damage.end);
  return fmt::format("{}: {}", text, damage.what);
}

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

// Columns of a dense file, which follow from its length: checksums and headers only add to the
// values.
std::int64_t dense_columns(const FileEntry& file, std::int64_t n_cells) {
  std::int64_t n_cols =
      file.bytes / std::max<std::int64_t>(n_cells, 1) / static_cast<std::int64_t>(sizeof(float));
  while (n_cols > 0 && DenseLayout(n_cells, n_cols, file.name).file_bytes > file.bytes) --n_cols;
  return n_cols;
}

// The tasks of a shard that no manifest speaks of yet.
void plan_shard_alone(const std::string& dir, const ShardEntry& shard, Findings& findings,
                      std::vector<Task>& tasks) {
  const auto open = [&](const FileEntry& entry) {
    return std::make_shared<const CheckedFile>(entry.name, shard.shard,
                                               (fs::path(dir) / entry.name).string(), findings);
  };
  const auto plan_matrix = [&](const FileEntry& entry) {
    if (entry.name.ends_with(".npy"))
      plan_dense(open(entry), entry, shard.n_cells, dense_columns(entry, shard.n_cells), tasks);
    else
      plan_cells(open(entry), entry, nullptr, tasks);
  };
  plan_matrix(shard.matrix);
  for (const ShardMatrix& matrix : shard.matrices) plan_matrix(matrix.file);
  for (const auto* entry : {&shard.obs, &shard.fixed_obs})
    plan_whole_file(open(*entry), *entry, tasks);
}

}  // namespace

std::vector<Damage> verify_shards(const std::string& dir, std::span<const ShardEntry> shards,
                                  const VerifyProgress& progress, const ParallelFor& parallel) {
  std::int64_t total = 0;
  for (const ShardEntry& shard : shards) total += bytes_of(shard);
  Findings findings(progress, total);
  std::vector<std::pair<const ShardEntry*, Task>> tasks;
  // What cannot be read is as bad as what is damaged.
  const auto note = [&](const ShardEntry& shard, const std::function<void()>& check) {
    try {
      check();
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kCancelled) throw;
      findings.add({.file = shard.matrix.name,
                    .shard = shard.shard,
                    .segment = -1,
                    .begin = 0,
                    .end = shard.matrix.bytes,
                    .what = error.what()});
    }
  };
  for (const ShardEntry& shard : shards)
    note(shard, [&] {
      std::vector<Task> own;
      plan_shard_alone(dir, shard, findings, own);
      for (Task& task : own) tasks.emplace_back(&shard, std::move(task));
    });
  parallel(std::ssize(tasks), [&](std::int64_t i) { note(*tasks[i].first, tasks[i].second); });
  return findings.take();
}

std::vector<Damage> verify_cells_file(const std::string& dir, const FileEntry& entry,
                                      const VerifyProgress& progress) {
  Findings findings(progress, entry.bytes);
  std::vector<Task> tasks;
  plan_cells(std::make_shared<const CheckedFile>(entry.name, -1,
                                                 (fs::path(dir) / entry.name).string(), findings),
             entry, nullptr, tasks);
  for (const Task& task : tasks) task();
  return findings.take();
}

}  // namespace cellfeed::format::shard
