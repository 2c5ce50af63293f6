#include "cellfeed/format/shard/parquet_file.h"

#include <arrow/api.h>
#include <arrow/io/memory.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>

#include <exception>
#include <utility>

#include "cellfeed/base/checked_size.h"
#include "cellfeed/base/error.h"
#include "cellfeed/format/parquet_reader.h"
#include "cellfeed/format/shard/arrow_file.h"
#include "cellfeed/format/shard/decoded_bytes.h"

namespace cellfeed::format::shard {
namespace {

// Row groups that overlap [begin, end), and the first row of the first of them.
struct RowGroups {
  std::vector<int> numbers;
  std::int64_t first_row = 0;
};

RowGroups overlapping_row_groups(const parquet::FileMetaData& metadata, std::int64_t begin,
                                 std::int64_t end) {
  RowGroups groups;
  std::int64_t row = 0;
  for (int i = 0; i < metadata.num_row_groups(); ++i) {
    const std::int64_t next = row + metadata.RowGroup(i)->num_rows();
    if (next > begin && row < end) {
      if (groups.numbers.empty()) groups.first_row = row;
      groups.numbers.push_back(i);
    }
    row = next;
  }
  return groups;
}

}  // namespace

std::unique_ptr<parquet::arrow::FileWriter> open_parquet_writer(
    const std::shared_ptr<arrow::Schema>& schema,
    const std::shared_ptr<arrow::io::OutputStream>& sink) {
  const auto properties =
      parquet::WriterProperties::Builder().compression(parquet::Compression::ZSTD)->build();
  const auto arrow_properties = parquet::ArrowWriterProperties::Builder().store_schema()->build();
  return arrow_value(parquet::arrow::FileWriter::Open(*schema, arrow::default_memory_pool(), sink,
                                                      properties, arrow_properties),
                     "", ErrorKind::kUnsupported);
}

ParquetFile::ParquetFile(std::shared_ptr<arrow::Buffer> bytes, std::int64_t n_rows,
                         const std::string& what, std::string path)
    : path_(std::move(path)) {
  const std::int64_t file_bytes = bytes->size();
  const auto file = std::make_shared<arrow::io::BufferReader>(std::move(bytes));
  try {
    metadata_ = parquet::ParquetFileReader::Open(file)->metadata();
    check_row_counts(n_rows, what);
    pool_.emplace(max_decoded_bytes(file_bytes, n_rows, metadata_->num_columns()));
    reader_ = pool_->value(open_parquet_reader(file, pool_->get(), {.metadata = metadata_}), path_);
  } catch (const parquet::ParquetException& error) {
    throw_error(ErrorKind::kCorruptData, path_, "not a readable Parquet file: {}", error.what());
  }
}

void ParquetFile::check_row_counts(std::int64_t n_rows, const std::string& what) const {
  if (metadata_->num_rows() != n_rows)
    throw_error(ErrorKind::kCorruptData, path_, "holds {} {} where the manifest says {}",
                metadata_->num_rows(), what, n_rows);
  CheckedSize sum = 0;
  for (int i = 0; i < metadata_->num_row_groups(); ++i) sum += metadata_->RowGroup(i)->num_rows();
  if (!(sum == n_rows))
    throw_error(ErrorKind::kCorruptData, path_,
                "its row groups do not hold the {} {} that it says it holds", n_rows, what);
}

std::shared_ptr<arrow::Schema> ParquetFile::schema() {
  std::shared_ptr<arrow::Schema> schema;
  pool_->check(reader_->GetSchema(&schema), path_);
  return schema;
}

std::shared_ptr<arrow::Table> ParquetFile::read(std::int64_t begin, std::int64_t end,
                                                const std::vector<int>& columns) {
  const RowGroups groups = overlapping_row_groups(*metadata_, begin, end);
  const auto table = pool_->value(reader_->ReadRowGroups(groups.numbers, columns), path_);
  pool_->check(table->ValidateFull(), path_);
  const auto rows = table->Slice(begin - groups.first_row, end - begin);
  if (rows->num_rows() != end - begin)
    throw_error(ErrorKind::kCorruptData, path_, "holds fewer rows than its metadata say");
  return rows;
}

std::shared_ptr<arrow::Table> ParquetFile::read_all() {
  const auto table = pool_->value(reader_->ReadTable(), path_);
  pool_->check(table->ValidateFull(), path_);
  return table;
}

}  // namespace cellfeed::format::shard
