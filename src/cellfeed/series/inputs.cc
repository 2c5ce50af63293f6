#include "cellfeed/series/inputs.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <optional>

#include "cellfeed/base/byte_size.h"
#include "cellfeed/base/error.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/series/kept_folder.h"

namespace cellfeed::series {
namespace {

constexpr std::int64_t kDecodeBytes = std::int64_t{64} << 20;
// Of a block of rows being read, to begin with: a huge page, as it is kept; and the rows of a run
// that is long enough.
constexpr std::int64_t kBlockBytes = std::int64_t{2} << 20;
constexpr std::int64_t kLongRun = 64;
constexpr std::int64_t kCachedBytes = std::int64_t{512} << 10;

}  // namespace

std::int64_t decode_bytes(const SeriesWork& work) { return std::max(work.share(), kDecodeBytes); }

Inputs::Inputs(std::vector<std::string> files) : files_(std::move(files)) {
  for (const std::string& path : files_) {
    const io::PathStatus status = io::status_of(path);
    if (!status.is_there()) throw Error(ErrorKind::kNotFound, "there is no such file", path);
    planned_.push_back(status);
    bytes_ += status.size;
  }
  // Groups do not depend on the threads: an interrupted build may go on with another number.
  const std::int64_t enough =
      std::clamp(bytes_ / 64, std::int64_t{1} << 18, std::int64_t{64} << 20);
  for (std::size_t i = 0; i < files_.size(); ++i) add_shares(i, enough);
}

void Inputs::add_shares(std::size_t file, std::int64_t enough) {
  const std::int64_t size = planned_[file].size;
  const std::int64_t wanted = size / (2 * enough);
  const std::int64_t n = wanted < 2 ? 1 : table_shares(files_[file], kDecodeBytes, wanted);
  for (std::int64_t k = 0; k < n; ++k) {
    const std::int64_t bytes = size * (k + 1) / n - size * k / n;
    if (groups_.empty() || groups_.back().bytes >= enough) groups_.emplace_back();
    groups_.back().shares.push_back({file, {k, n}, bytes});
    groups_.back().bytes += bytes;
  }
}

std::string Inputs::plan() const {
  std::string text;
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const bool is_local = io::is_local(files_[i]);
    text += fmt::format("{} {} {}\n",
                        is_local ? std::filesystem::absolute(files_[i]).string() : files_[i],
                        planned_[i].size, planned_[i].modified_ns);
  }
  return text;
}

void Inputs::require_as_planned(std::size_t file) const {
  const io::PathStatus now = io::status_of(files_[file]);
  const io::PathStatus& planned = planned_[file];
  // A file's own number is not compared: some file systems do not keep it. Of an object, device is
  // its version.
  const bool is_same = now.is_there() && now.size == planned.size &&
                       now.modified_ns == planned.modified_ns &&
                       now.changed_ns == planned.changed_ns &&
                       (io::is_local(files_[file]) || now.device == planned.device);
  if (!is_same)
    throw Error(
        ErrorKind::kCorruptData,
        "the file was replaced, removed or written again since its reading began, so its rows may "
        "not belong together: begin again once it stays as it is",
        files_[file]);
}

template <typename Fn>
void Inputs::with_source(const Share& share, const RowColumns& columns, bool was_auto,
                         const SeriesWork& work, const Fn& fn) const {
  try {
    RowSource source(files_[share.file], columns, was_auto, decode_bytes(work), share.of);
    require_as_planned(share.file);
    fn(source);
    source.require_unchanged();
  } catch (const Error& error) {
    // Whatever looks wrong in a file that is another by now.
    if (error.kind() != ErrorKind::kCancelled && error.path() == files_[share.file])
      require_as_planned(share.file);
    throw;
  }
}

SpilledPart Inputs::read_group(const Group& group, const RowColumns& columns, bool was_auto,
                               io::FileTarget target, SeriesWork& work) const {
  SpillWriter writer(std::move(target), columns,
                     [&](std::int64_t bytes) { return work.take_memory(bytes); });
  const std::int64_t width = record_bytes(columns.n_values());
  // A block is there as it is read, in the order of entities, and in columns.
  const std::int64_t most_rows =
      std::clamp<std::int64_t>(work.share() / (4 * width), 1024, std::int64_t{1} << 20);
  // Where entities alternate, large ones make fewer and longer runs.
  std::int64_t block_rows = std::min(
      most_rows,
      std::max<std::int64_t>(1024, kBlockBytes / static_cast<std::int64_t>(
                                                     Records::narrow_bytes(columns.n_values()))));
  // Rows of these are put together column by column, in the processor's cache.
  const std::int64_t rows_together = std::max<std::int64_t>(64, kCachedBytes / width);
  RowBlock block(columns.n_values());
  const auto add_rows = [&](RowSource& source) {
    bool is_at_end = false;
    while (!is_at_end) {
      block.clear();
      block.records.reserve(static_cast<std::size_t>(block_rows));
      while (block.n_rows() < block_rows && !is_at_end)
        is_at_end =
            !source.next(std::min<std::int64_t>(block_rows - block.n_rows(), rows_together), block);
      const std::int64_t n_rows = block.n_rows();
      if (writer.add(block, source.entities()) * kLongRun > n_rows)
        block_rows = std::min(most_rows, 2 * block_rows);
      work.check_stop();
    }
    writer.end_file(source);
  };
  for (const Share& share : group.shares) {
    with_source(share, columns, was_auto, work, add_rows);
    work.advance(share.bytes);
  }
  return writer.commit();
}

TimeKind Inputs::common_kind(const std::vector<SpilledPart>& parts) const {
  std::optional<TimeKind> kind;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    if (!parts[p].kind) continue;
    if (kind && *kind != *parts[p].kind)
      throw_error(ErrorKind::kCorruptData, files_[groups_[p].shares[0].file],
                  "its times, or those of a file after it, are {} where those of the files before "
                  "it are {}",
                  time_kind_name(*parts[p].kind), time_kind_name(*kind));
    kind = parts[p].kind;
  }
  if (!kind) {
    const bool are_empty = std::ranges::all_of(parts, [](auto& part) { return part.n_read == 0; });
    throw Error(ErrorKind::kCorruptData,
                are_empty ? "the inputs hold no rows" : "no row of the inputs has a time",
                files_[0]);
  }
  return *kind;
}

Inputs::Rows Inputs::read(const RowColumns& columns, bool was_auto, const io::Directory& folder,
                          bool resume, SeriesWork& work) const {
  work.begin_phase("reading", bytes_);
  std::vector<SpilledPart> parts(groups_.size());
  std::vector<std::string> paths;
  std::atomic<std::int64_t> n_resumed{0};
  for (std::size_t p = 0; p < groups_.size(); ++p) paths.push_back(folder.path_of(part_name(p)));
  work.pool().parallel_for(n_parts(), [&](std::int64_t i) {
    const auto p = static_cast<std::size_t>(i);
    if (resume) {
      if (auto part = read_spilled_part(paths[p], columns)) {
        parts[p] = std::move(*part);
        ++n_resumed;
        return work.advance(groups_[p].bytes);
      }
    }
    parts[p] = read_group(groups_[p], columns, was_auto, {folder, part_name(p)}, work);
  });
  Rows read;
  read.n_parts_resumed = n_resumed;
  std::int64_t n_runs = 0;
  for (const SpilledPart& part : parts) {
    read.n_read += part.n_read;
    read.n_dropped += part.n_dropped;
    n_runs += static_cast<std::int64_t>(part.runs.size());
  }
  const std::int64_t places = n_runs * static_cast<std::int64_t>(sizeof(SpilledRows::Piece));
  if (places > work.memory_budget() / 2)
    throw_invalid(
        "rows of many entities alternate so often that to list their places takes {}, "
        "more than half of the memory budget: raise it, or sort the files by entity",
        format_byte_size(places));
  read.kind = common_kind(parts);
  read.rows = std::make_unique<SpilledRows>(std::move(parts), paths, columns);
  return read;
}

}  // namespace cellfeed::series
