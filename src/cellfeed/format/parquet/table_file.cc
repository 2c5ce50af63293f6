#include "cellfeed/format/parquet/table_file.h"

#include <arrow/api.h>
#include <arrow/util/key_value_metadata.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/statistics.h>

#include <algorithm>
#include <limits>
#include <new>
#include <type_traits>

#include "cellfeed/base/ascii_case.h"
#include "cellfeed/base/checked_size.h"
#include "cellfeed/base/error.h"
#include "cellfeed/format/column_values.h"
#include "cellfeed/format/decode_pool.h"
#include "cellfeed/format/parquet_chunk.h"
#include "cellfeed/format/parquet_reader.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/io/stand_in.h"

namespace cellfeed::format::parquet_table {
namespace {

// What the library throws is a damaged file.
template <typename Fn>
std::invoke_result_t<Fn> guarded(const std::string& path, Fn&& fn) {
  try {
    return fn();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw_error(ErrorKind::kCorruptData, path, "cannot be read as a Parquet file: {}",
                error.what());
  }
}

void append_leaves(const parquet::arrow::SchemaField& field, std::vector<int>& leaves) {
  if (field.is_leaf()) leaves.push_back(field.column_index);
  for (const auto& child : field.children) append_leaves(child, leaves);
}

std::optional<std::int64_t> largest_of(const parquet::Statistics& found) {
  if (!found.HasMinMax()) return std::nullopt;
  if (found.physical_type() == parquet::Type::INT32)
    return static_cast<const parquet::Int32Statistics&>(found).max();
  if (found.physical_type() == parquet::Type::INT64)
    return static_cast<const parquet::Int64Statistics&>(found).max();
  return std::nullopt;
}

std::string name_of(parquet::Compression::type codec) {
  if (codec == parquet::Compression::UNCOMPRESSED) return "none";
  return arrow::util::Codec::GetCodecAsString(codec);
}

void require_parquet(const io::ByteSource& source) {
  constexpr std::int64_t kLeastBytes = 12;
  if (source.size() == 0)
    throw Error(ErrorKind::kCorruptData, "is an empty file: it holds no table", source.path());
  std::string begin(4, '\0'), end(4, '\0');
  if (source.size() >= kLeastBytes) {
    source.read(0, std::as_writable_bytes(std::span(begin)));
    source.read(source.size() - 4, std::as_writable_bytes(std::span(end)));
  }
  if (begin == "PARE" || end == "PARE")
    throw Error(ErrorKind::kUnsupported,
                "is an encrypted Parquet file; write it without encryption", source.path());
  if (begin != "PAR1") {
    io::refuse_stand_in(source);
    throw Error(ErrorKind::kCorruptData,
                "does not begin as a Parquet file does: it is damaged, or not what its name says",
                source.path());
  }
  if (end != "PAR1")
    throw Error(ErrorKind::kCorruptData,
                "does not end as a Parquet file does: it is damaged, or was cut short; copy or "
                "download it again",
                source.path());
}

}  // namespace

TableFile::TableFile(std::string path)
    : path_(std::move(path)), source_(io::open_file(path_, {.guarded = true})) {
  require_parquet(*source_);
  guarded(path_, [&] { read_footer(); });
  check_rows();
  if (!source_->map().empty()) ahead_.emplace(*source_);
  require_unchanged();
}

TableFile::~TableFile() = default;

void TableFile::read_footer() {
  // A footer of a few kilobytes can stand for much more.
  constexpr std::int64_t kAnyFooter = 256 << 20, kPerFileByte = 64;
  footer_pool_ = std::make_unique<const DecodePool>(
      kAnyFooter + kPerFileByte * std::min(size(), kAnyFooter * kPerFileByte));
  const DecodePool& pool = *footer_pool_;
  const auto file = std::make_shared<SourceFile>(source_, pool.get());
  auto opened = open_parquet_reader(file, pool.get());
  file->rethrow_source_error();
  const auto reader = pool.value(std::move(opened), path_);
  metadata_ = reader->parquet_reader()->metadata();
  pool.check(reader->GetSchema(&schema_), path_);
  for (int c = 0; c < schema_->num_fields(); ++c)
    if (!is_utf8(schema_->field(c)->name()))
      throw_error(ErrorKind::kCorruptData, path_,
                  "the name of column {} is not UTF-8: write the file again in that encoding",
                  c + 1);
  for (const auto& field : reader->manifest().schema_fields)
    append_leaves(field, leaves_.emplace_back());
}

void TableFile::check_rows() {
  guarded(path_, [&] {
    for (int group = 0; group < metadata_->num_row_groups(); ++group) {
      const CheckedSize next =
          CheckedSize(first_rows_.back()) + metadata_->RowGroup(group)->num_rows();
      if (!next.fits())
        throw_error(ErrorKind::kCorruptData, path_, "row group {} cannot have {} rows", group,
                    metadata_->RowGroup(group)->num_rows());
      first_rows_.push_back(next.value());
    }
    if (n_rows() != metadata_->num_rows())
      throw_error(ErrorKind::kCorruptData, path_,
                  "its row groups hold {} rows where its footer says {}", n_rows(),
                  metadata_->num_rows());
  });
}

int TableFile::group_of(std::int64_t row) const {
  return static_cast<int>(std::upper_bound(first_rows_.begin(), first_rows_.end(), row) -
                          first_rows_.begin()) -
         1;
}

std::optional<std::string> TableFile::note(const std::string& key) const {
  const auto& notes = metadata_->key_value_metadata();
  if (!notes) return std::nullopt;
  const auto found = notes->Get(key);
  return found.ok() ? std::optional<std::string>(*found) : std::nullopt;
}

StoredChunk TableFile::chunk(int group, int leaf) const {
  return guarded(path_, [&] {
    const auto of_group = metadata_->RowGroup(group);
    const auto stored = of_group->ColumnChunk(leaf);
    if (!stored->file_path().empty())
      throw_error(ErrorKind::kUnsupported, path_, "has columns in another file: '{}'",
                  stored->file_path());
    StoredChunk chunk{.n_values = stored->num_values(),
                      .bytes = stored->total_uncompressed_size(),
                      .compression = name_of(stored->compression())};
    chunk.range = range_of_chunk(*stored);
    const std::int64_t begin = chunk.range.offset;
    if (begin < 0 || chunk.range.length < 0 || begin > size() ||
        chunk.range.length > size() - begin || chunk.n_values < 0 || chunk.bytes < 0)
      throw_error(ErrorKind::kCorruptData, path_,
                  "column '{}' of row group {} is said to lie where the file has nothing: offset "
                  "{}, {} bytes, size {}",
                  stored->path_in_schema()->ToDotString(), group, begin, chunk.range.length,
                  size());
    return chunk;
  });
}

ChunkStatistics TableFile::statistics(int group, int leaf) const {
  return guarded(path_, [&] {
    const auto of_group = metadata_->RowGroup(group);
    const auto found = of_group->ColumnChunk(leaf)->statistics();
    ChunkStatistics statistics;
    if (!found) return statistics;
    if (found->HasNullCount()) statistics.n_missing = found->null_count();
    statistics.largest = largest_of(*found);
    return statistics;
  });
}

// Far more than anything takes that is written so; a few bytes of a hostile file can stand for
// gigabytes.
std::int64_t TableFile::most_bytes(const Reading& reading) const {
  constexpr std::int64_t kAnyColumns = 128 << 20, kPerByte = 16, kPerValue = 1024;
  constexpr std::int64_t kMost = std::int64_t{16} << 30;
  CheckedSize bytes = kAnyColumns;
  for (const int leaf : reading.leaves) {
    const StoredChunk stored = chunk(reading.group, leaf);
    bytes += CheckedSize(stored.bytes) * kPerByte + CheckedSize(stored.n_values) * kPerValue;
  }
  return bytes.fits() ? std::min(bytes.value(), kMost) : kMost;
}

void TableFile::read(const Reading& reading, const Visit& visit) const {
  if (reading.leaves.empty()) return;
  const DecodePool pool(most_bytes(reading));
  const auto file = std::make_shared<SourceFile>(source_, pool.get(), reading.held);
  try {
    guarded(path_, [&] { read_slices(reading, pool, file, visit); });
  } catch (const Error&) {
    file->rethrow_source_error();
    require_unchanged();
    throw;
  }
  require_unchanged();
}

void TableFile::read_slices(const Reading& reading, const DecodePool& pool,
                            std::shared_ptr<SourceFile> file, const Visit& visit) const {
  const std::int64_t n_rows = reading.most_rows < 0
                                  ? rows_of(reading.group)
                                  : std::min(reading.most_rows, rows_of(reading.group));
  const std::int64_t batch_rows = reading.batch_rows > 0 ? reading.batch_rows : n_rows;
  ParquetReading opening{.metadata = metadata_,
                         .batch_rows = std::max<std::int64_t>(1, batch_rows)};
  if (reading.keeps_repeated_texts)
    opening.dictionary_leaves.assign(reading.leaves.begin(), reading.leaves.end());
  const auto reader = pool.value(open_parquet_reader(std::move(file), pool.get(), opening), path_);
  const std::size_t step =
      reading.n_leaves_at_once > 0 ? reading.n_leaves_at_once : reading.leaves.size();
  for (std::size_t first = 0; first < reading.leaves.size(); first += step) {
    const auto some = reading.leaves.subspan(first, std::min(step, reading.leaves.size() - first));
    const auto batches = pool.value(
        reader->GetRecordBatchReader({reading.group}, std::vector<int>(some.begin(), some.end())),
        path_);
    std::int64_t n_read = 0;
    // What follows the last row is looked for where all are read.
    while (reading.most_rows < 0 ? n_read <= n_rows : n_read < n_rows) {
      std::shared_ptr<arrow::RecordBatch> batch;
      pool.check(batches->ReadNext(&batch), path_);
      if (!batch) break;
      pool.check(batch->ValidateFull(), path_);
      n_read += batch->num_rows();
      if (n_read <= n_rows) visit(*batch, first);
    }
    if (n_read != n_rows)
      throw_error(ErrorKind::kCorruptData, path_, "row group {} holds {} rows where it says {}",
                  reading.group, n_read, n_rows);
  }
}

}  // namespace cellfeed::format::parquet_table
