#include "cellfeed/convert/cache/packed_segment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/checksum.h"
#include "cellfeed/format/shard/manifest.h"
#include "cellfeed/io/atomic_file.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::convert {
namespace {

namespace shard = format::shard;

constexpr const char* kPrefix = "rows-";
constexpr const char* kCells = ".cells";
constexpr const char* kRows = ".rows";

// A list of rows: this, the numbers of the rows, and the XXH3-64 of all of that, each 8 bytes.
struct ListHeader {
  char magic[8] = {'C', 'F', 'R', 'O', 'W', 'S', '0', '1'};
  std::uint64_t identity = 0;
  std::uint64_t cells_checksum = 0;
  std::uint64_t n_rows = 0;
};

std::string random_name() {
  std::random_device random;
  return fmt::format("{}{}-{:08x}{:08x}", kPrefix, ::getpid(), random(), random());
}

std::int64_t list_bytes(std::int64_t n_rows) {
  return static_cast<std::int64_t>(sizeof(ListHeader)) + 8 * (n_rows + 1);
}

// Empty where it is not the list of these cells.
std::vector<std::uint64_t> read_row_numbers(const io::ByteSource& file,
                                            const shard::CellsHeader& cells,
                                            const PackedMatrix& matrix) {
  if (file.size() != list_bytes(cells.n_cells)) return {};
  std::vector<std::uint64_t> words(static_cast<std::size_t>(file.size()) / 8);
  const auto bytes = std::as_writable_bytes(std::span(words));
  file.read(0, bytes);
  const ListHeader wanted{.identity = matrix.identity,
                          .cells_checksum = cells.checksum,
                          .n_rows = static_cast<std::uint64_t>(cells.n_cells)};
  if (std::memcmp(words.data(), &wanted, sizeof wanted) != 0 ||
      words.back() != shard::checksum_bytes(bytes.first(bytes.size() - 8)))
    return {};
  std::vector<std::uint64_t> rows(static_cast<std::size_t>(cells.n_cells));
  std::copy_n(words.data() + sizeof(ListHeader) / 8, rows.size(), rows.data());
  const auto n_rows = static_cast<std::uint64_t>(matrix.n_rows);
  if (std::ranges::any_of(rows, [&](std::uint64_t row) { return row >= n_rows; })) return {};
  return rows;
}

// Lengths and numbers of non-zeros, by which places in batches are counted out.
bool has_whole_row_table(const io::ByteSource& file, const shard::CellsHeader& header) {
  std::vector<std::byte> table(static_cast<std::size_t>(header.row_table_bytes()));
  file.read(header.row_table_offset(), table);
  return shard::checksum_bytes(table) == header.row_table_checksum;
}

// Null where it holds values of another kind, or is damaged.
std::shared_ptr<const shard::CellsFile> open_cells(const std::string& path,
                                                   const PackedMatrix& matrix, bool verifies) {
  std::shared_ptr<const io::ByteSource> source =
      io::open_local_file(path, {.random_access = true, .guarded = true});
  auto cells = std::make_shared<const shard::CellsFile>(
      source, nullptr, shard::CellsFileOptions{.reads_ahead = true, .verifies = verifies});
  const shard::CellsHeader& header = cells->header();
  if (header.n_genes != matrix.n_genes || header.value_dtype != matrix.value_dtype ||
      !has_whole_row_table(*source, header))
    return nullptr;
  return cells;
}

// Of the header, which is checked.
std::uint64_t cells_checksum(const std::string& path) {
  return shard::CellsFile(io::open_local_file(path, {.access = io::FileAccess::kPread}), nullptr,
                          {})
      .header()
      .checksum;
}

std::optional<PackedSegment> open_files(const io::Directory& directory, const std::string& name,
                                        const PackedMatrix& matrix, bool verifies) {
  auto cells = open_cells(directory.path_of(name + kCells), matrix, verifies);
  if (!cells) return std::nullopt;
  const auto list = io::open_local_file(directory.path_of(name + kRows),
                                        {.access = io::FileAccess::kPread, .threads = 1});
  auto rows = read_row_numbers(*list, cells->header(), matrix);
  if (rows.empty()) return std::nullopt;
  return PackedSegment{.name = name, .cells = std::move(cells), .rows = std::move(rows)};
}

}  // namespace

std::vector<std::string> segment_names(const io::Directory& directory) {
  std::vector<std::string> names;
  for (const std::string& file : directory.names())
    if (file.starts_with(kPrefix) && file.ends_with(kRows))
      names.push_back(file.substr(0, file.size() - std::strlen(kRows)));
  return names;
}

std::optional<PackedSegment> open_segment(const io::Directory& directory, const std::string& name,
                                          const PackedMatrix& matrix, bool verifies) {
  try {
    return open_files(directory, name, matrix, verifies);
  } catch (const Error& error) {
    if (error.was_not_read()) throw;
    return std::nullopt;
  }
}

std::vector<PackedSegment> open_shard_segments(const std::string& dir, const PackedMatrix& matrix,
                                               bool verifies) {
  const shard::Manifest manifest = shard::read_manifest(dir);
  if (manifest.n_cells != matrix.n_rows) return {};
  std::vector<PackedSegment> shards;
  for (const shard::ShardEntry& entry : manifest.shards) {
    PackedSegment shard{.name = {},
                        .cells = open_cells(dir + "/" + entry.matrix.name, matrix, verifies),
                        .rows = std::vector<std::uint64_t>(entry.n_cells)};
    if (!shard.cells || shard.cells->header().checksum != entry.matrix.checksum) return {};
    std::iota(shard.rows.begin(), shard.rows.end(), static_cast<std::uint64_t>(entry.first_cell));
    shards.push_back(std::move(shard));
  }
  return shards;
}

bool are_listed_files_whole(const std::string& dir) {
  const io::Directory directory(dir);
  const auto is_whole = [&](const shard::FileEntry& entry) {
    if (directory.file_bytes(entry.name) != entry.bytes) return false;
    const auto file = io::open_local_file(directory.path_of(entry.name),
                                          {.access = io::FileAccess::kPread, .threads = 1});
    std::vector<std::byte> bytes(static_cast<std::size_t>(file->size()));
    file->read(0, bytes);
    return shard::checksum_bytes(bytes) == entry.checksum;
  };
  const shard::Manifest manifest = shard::read_manifest(dir);
  for (const shard::FileEntry* entry : shard::common_files(manifest))
    if (!is_whole(*entry)) return false;
  return std::ranges::all_of(manifest.shards, [&](const shard::ShardEntry& shard) {
    return is_whole(shard.obs) && is_whole(shard.fixed_obs) &&
           directory.file_bytes(shard.matrix.name) == shard.matrix.bytes &&
           cells_checksum(directory.path_of(shard.matrix.name)) == shard.matrix.checksum;
  });
}

bool lists_cells(const std::string& dir, std::uint64_t checksum) {
  try {
    return std::ranges::any_of(
        shard::read_manifest(dir).shards,
        [&](const shard::ShardEntry& shard) { return shard.matrix.checksum == checksum; });
  } catch (const Error& error) {
    if (error.was_not_read()) throw;
    return true;
  }
}

std::vector<std::string> segment_damages(const io::Directory& directory, const std::string& name,
                                         const shard::VerifyProgress& progress) {
  const auto list = io::open_local_file(directory.path_of(name + kRows),
                                        {.access = io::FileAccess::kPread, .threads = 1});
  std::vector<std::byte> bytes(static_cast<std::size_t>(list->size()));
  list->read(0, bytes);
  ListHeader header;
  constexpr std::size_t kSum = 8;
  std::uint64_t sum = 0;
  if (bytes.size() >= sizeof header + kSum) {
    std::memcpy(&header, bytes.data(), sizeof header);
    std::memcpy(&sum, bytes.data() + bytes.size() - kSum, kSum);
  }
  const ListHeader fresh;
  if (std::memcmp(header.magic, fresh.magic, sizeof fresh.magic) != 0 ||
      sum != shard::checksum_bytes(
                 std::span(bytes).first(bytes.size() - std::min(bytes.size(), kSum))))
    return {fmt::format("{}{}: is not as it was written", name, kRows)};
  const std::string cells = name + kCells;
  const auto size = directory.file_bytes(cells);
  if (!size) return {fmt::format("{}: is missing", cells)};
  std::vector<std::string> found;
  for (const shard::Damage& damage : shard::verify_cells_file(
           directory.path(), {.name = cells, .bytes = *size, .checksum = header.cells_checksum},
           progress))
    found.push_back(describe(damage));
  return found;
}

// The list first: without it nobody looks at the cells.
void remove_segment(const io::Directory& directory, const std::string& name) {
  directory.remove(name + kRows);
  directory.remove(name + kCells);
}

bool is_segment_file(std::string_view name) {
  return name.starts_with(kPrefix) && (name.ends_with(kRows) || name.ends_with(kCells));
}

PackedSegmentWriter::PackedSegmentWriter(const io::Directory& directory, const PackedMatrix& matrix)
    : directory_(directory),
      matrix_(matrix),
      name_(random_name()),
      cells_(io::FileTarget(directory, name_ + kCells),
             {.n_genes = matrix.n_genes, .value_dtype = matrix.value_dtype}) {}

void PackedSegmentWriter::append(std::span<const std::uint64_t> rows, shard::EncodedRows& encoded) {
  bytes_ += std::ssize(encoded.bytes);
  cells_.append(encoded);
  rows_.insert(rows_.end(), rows.begin(), rows.end());
}

std::string PackedSegmentWriter::finish() {
  const shard::FileEntry cells = cells_.finish();
  try {
    write_list(cells.checksum);
  } catch (...) {
    // Cells without their list are of no use, and take what little room there may be.
    try {
      remove_segment(directory_, name_);
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the first error is the one to tell
    }
    throw;
  }
  return name_;
}

void PackedSegmentWriter::write_list(std::uint64_t cells_checksum) {
  const ListHeader header{
      .identity = matrix_.identity, .cells_checksum = cells_checksum, .n_rows = rows_.size()};
  shard::RunningChecksum checksum;
  io::AtomicFile list(io::FileTarget(directory_, name_ + kRows));
  const auto append = [&](std::span<const std::byte> bytes) {
    checksum.add(bytes);
    list.append(bytes);
  };
  append(std::as_bytes(std::span(&header, 1)));
  append(std::as_bytes(std::span(rows_)));
  const std::uint64_t sum = checksum.value();
  list.append(std::as_bytes(std::span(&sum, 1)));
  list.commit();
}

}  // namespace cellfeed::convert
