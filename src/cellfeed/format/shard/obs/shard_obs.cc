#include "cellfeed/format/shard/obs/shard_obs.h"

#include <arrow/api.h>
#include <arrow/array/concatenate.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/reader.h>

#include "cellfeed/base/error.h"
#include "cellfeed/base/nearest_name.h"
#include "cellfeed/format/decode_pool.h"
#include "cellfeed/format/row_store.h"
#include "cellfeed/format/shard/arrow_file.h"
#include "cellfeed/format/shard/obs/fixed_obs_builder.h"
#include "cellfeed/format/shard/obs/obs_check.h"
#include "cellfeed/format/shard/obs/obs_schema.h"
#include "cellfeed/format/shard/obs/shard_identity.h"
#include "cellfeed/format/shard/parquet_file.h"

namespace cellfeed::format::shard {
namespace {

// Arrow's own, for a file whose columns stay where they are.
constexpr std::int64_t kUncompressedBytes = 1 << 20;

DType fixed_dtype(const arrow::DataType& type, const std::string& path) {
  const auto dtype = matrix::dtype_of_arrow(type);
  // Booleans are stored as bytes.
  if (dtype && *dtype != DType::kBool) return *dtype;
  throw_error(ErrorKind::kCorruptData, path, "a fixed-width column of an unexpected type: {}",
              type.ToString());
}

// Zero copy: the column's values are the file's bytes.
matrix::FixedColumn fixed_column_of(const arrow::Field& field,
                                    const std::shared_ptr<arrow::Array>& array,
                                    const std::string& path) {
  matrix::FixedColumn column;
  column.name = field.name();
  column.length = array->length();
  column.owner = array;
  std::shared_ptr<arrow::Array> values = array;
  if (array->type_id() == arrow::Type::DICTIONARY) {
    const auto& dictionary = static_cast<const arrow::DictionaryArray&>(*array);
    column.is_categorical = true;
    column.ordered = static_cast<const arrow::DictionaryType&>(*array->type()).ordered();
    column.categories = dictionary.dictionary();
    values = dictionary.indices();
  }
  column.dtype = fixed_dtype(*values->type(), path);
  if (is_stored_bool(field) && column.dtype == DType::kU8) column.dtype = DType::kBool;
  column.values = values->data()->buffers[1] ? values->data()->buffers[1]->data() : nullptr;
  if (reinterpret_cast<std::uintptr_t>(column.values) % dtype_bytes(column.dtype) != 0)
    throw_error(ErrorKind::kCorruptData, path, "column '{}' is not aligned: write the shard again",
                column.name);
  if (!column.is_categorical && values->null_count() > 0)
    column.validity = values->null_bitmap_data();
  return column;
}

std::shared_ptr<arrow::Array> bytes_to_bools(const arrow::Array& array) {
  const auto& bytes = static_cast<const arrow::UInt8Array&>(array);
  arrow::BooleanBuilder builder;
  check_arrow(builder.Reserve(bytes.length()), "", ErrorKind::kInternal);
  for (std::int64_t i = 0; i < bytes.length(); ++i) {
    if (bytes.IsNull(i))
      builder.UnsafeAppendNull();
    else
      builder.UnsafeAppend(bytes.Value(i) != 0);
  }
  return arrow_value(builder.Finish(), "", ErrorKind::kInternal);
}

// A copy, as nobody asks what became of the file behind a table. Missing codes are -1 in the file;
// Arrow wants codes in range under its null bits only when it is told to look.
std::shared_ptr<arrow::Array> slice_fixed(const arrow::RecordBatch& batch, int i,
                                          std::int64_t begin, std::int64_t end,
                                          const std::string& path) {
  auto array = arrow_value(arrow::Concatenate({batch.column(i)->Slice(begin, end - begin)}), path,
                           ErrorKind::kCorruptData);
  check_arrow(array->ValidateFull(), path, ErrorKind::kCorruptData);
  return is_stored_bool(*batch.schema()->field(i)) && array->type_id() == arrow::Type::UINT8
             ? bytes_to_bools(*array)
             : array;
}

// What is written is not compressed, so that columns are bytes of the file. Anything else would
// take memory that the file's size does not tell.
void check_lies_in(const arrow::Buffer& file, const arrow::ArrayData& array,
                   const std::string& path) {
  const auto begin = reinterpret_cast<std::uintptr_t>(file.data());
  for (const auto& buffer : array.buffers) {
    if (!buffer || buffer->size() == 0) continue;
    const auto at = reinterpret_cast<std::uintptr_t>(buffer->data());
    if (at < begin || at - begin > static_cast<std::uintptr_t>(file.size()) ||
        buffer->size() > file.size() - static_cast<std::int64_t>(at - begin))
      throw_error(ErrorKind::kCorruptData, path,
                  "its columns are compressed, which those of a shard are not");
  }
  for (const auto& child : array.child_data) check_lies_in(file, *child, path);
  if (array.dictionary) check_lies_in(file, *array.dictionary, path);
}

// The same, its categories in memory.
std::shared_ptr<arrow::Array> copy_categories(const std::shared_ptr<arrow::Array>& array,
                                              const std::string& path) {
  if (array->type_id() != arrow::Type::DICTIONARY) return array;
  const auto& coded = static_cast<const arrow::DictionaryArray&>(*array);
  return std::make_shared<arrow::DictionaryArray>(
      array->type(), coded.indices(),
      arrow_value(arrow::Concatenate({coded.dictionary()}), path, ErrorKind::kCorruptData));
}

void check_library_sizes(const arrow::RecordBatch& batch, const std::string& path) {
  const int last = batch.num_columns() - 1;
  if (last < 0 || batch.column_name(last) != kLibrarySizeColumn ||
      batch.column(last)->type_id() != arrow::Type::DOUBLE || batch.column(last)->null_count() > 0)
    throw_error(ErrorKind::kCorruptData, path,
                "its last column must be '{}', of float64 without missing values",
                kLibrarySizeColumn);
}

}  // namespace

std::shared_ptr<arrow::RecordBatch> ShardObs::fixed() const {
  const std::lock_guard lock(mutex_);
  if (fixed_) return fixed_;
  fixed_file_ = directory_->map(shard_.fixed_obs);
  fixed_ = fixed_file_->checked([&] { return read_fixed(fixed_file_); });
  return fixed_;
}

std::shared_ptr<arrow::RecordBatch> ShardObs::read_fixed(
    const std::shared_ptr<const MappedFile>& file) const {
  const std::string path = directory_->name_path(shard_.fixed_obs);
  const DecodePool pool(kUncompressedBytes);
  auto options = arrow::ipc::IpcReadOptions::Defaults();
  options.memory_pool = pool.get();
  options.use_threads = false;
  const auto reader =
      pool.value(arrow::ipc::RecordBatchFileReader::Open(
                     std::make_shared<arrow::io::BufferReader>(as_buffer(file)), options),
                 path);
  check_shard_number(*reader->schema(), shard_.shard, path);
  if (reader->num_record_batches() != 1)
    throw_error(ErrorKind::kCorruptData, path, "must hold one record batch, not {}",
                reader->num_record_batches());
  const auto batch = pool.value(reader->ReadRecordBatch(0), path);
  for (const auto& column : batch->column_data()) check_lies_in(*file, *column, path);
  check_fixed_obs(*batch, path);
  if (batch->num_rows() != shard_.n_cells)
    throw_error(ErrorKind::kCorruptData, path, "holds {} rows where the manifest says {}",
                batch->num_rows(), shard_.n_cells);
  if (keeps_library_sizes(directory_->manifest(), shard_)) check_library_sizes(*batch, path);
  arrow::ArrayVector columns;
  for (const auto& column : batch->columns()) columns.push_back(copy_categories(column, path));
  return arrow::RecordBatch::Make(batch->schema(), batch->num_rows(), std::move(columns));
}

matrix::FixedColumn ShardObs::map_column(const arrow::RecordBatch& batch, int i) const {
  auto column = fixed_column_of(*batch.schema()->field(i), batch.column(i),
                                directory_->name_path(shard_.fixed_obs));
  column.check_source = [file = fixed_file_] { file->require_intact(); };
  return column;
}

std::shared_ptr<arrow::RecordBatch> ShardObs::fixed_obs() const {
  const auto batch = fixed();
  if (!keeps_library_sizes(directory_->manifest(), shard_)) return batch;
  return arrow_value(batch->RemoveColumn(batch->num_columns() - 1), "", ErrorKind::kInternal);
}

std::optional<matrix::FixedColumn> ShardObs::known_library_sizes() const {
  if (!keeps_library_sizes(directory_->manifest(), shard_)) return std::nullopt;
  const auto batch = fixed();
  return map_column(*batch, batch->num_columns() - 1);
}

std::shared_ptr<arrow::Schema> ShardObs::schema() const {
  const std::lock_guard lock(mutex_);
  if (schema_) return schema_;
  const std::string path = directory_->name_path(shard_.obs);
  parquet_ = directory_->map(shard_.obs);
  const auto schema = parquet_->checked(
      [&] { return ParquetFile(as_buffer(parquet_), shard_.n_cells, "rows", path).schema(); });
  check_shard_number(*schema, shard_.shard, path);
  if (schema->num_fields() == 0 || schema->field(0)->name() != kIndexColumn ||
      schema->field(0)->type()->id() != arrow::Type::STRING)
    throw_error(ErrorKind::kCorruptData, path, "its first column must be '{}', of text",
                kIndexColumn);
  schema_ = schema;
  return schema_;
}

std::shared_ptr<const MappedFile> ShardObs::parquet() const {
  schema();
  const std::lock_guard lock(mutex_);
  return parquet_;
}

std::vector<std::string> ShardObs::names() const {
  auto names = schema()->field_names();
  names.erase(names.begin());
  return names;
}

matrix::FixedColumn ShardObs::column(const std::string& name) const {
  const auto batch = fixed_obs();
  if (const int i = batch->schema()->GetFieldIndex(name); i >= 0) return map_column(*batch, i);
  const int i = schema()->GetFieldIndex(name);
  if (i < 0)
    throw_error(ErrorKind::kNoSuchKey, directory_->name_path(shard_.obs), "no obs column '{}'{}",
                name, suggestion(name, names()));
  return matrix::make_fixed_column(name, *read_parquet(0, shard_.n_cells, {i})->column(0));
}

std::shared_ptr<arrow::Table> ShardObs::read_parquet(std::int64_t begin, std::int64_t end,
                                                     const std::vector<int>& columns) const {
  const auto file = parquet();
  return file->checked([&] {
    return ParquetFile(as_buffer(file), shard_.n_cells, "rows", directory_->name_path(shard_.obs))
        .read(begin, end, columns);
  });
}

std::shared_ptr<arrow::Table> ShardObs::read(std::int64_t begin, std::int64_t end) const {
  if (begin < 0 || begin > end || end > shard_.n_cells)
    throw_error(ErrorKind::kOutOfRange, directory_->dir(),
                "obs rows out of range: [{}, {}), rows {}", begin, end, shard_.n_cells);
  const auto all = schema();
  const auto batch = fixed_obs();
  std::vector<int> in_parquet;
  for (int i = 0; i < all->num_fields(); ++i)
    if (batch->schema()->GetFieldIndex(all->field(i)->name()) < 0) in_parquet.push_back(i);
  const auto texts = read_parquet(begin, end, in_parquet);
  const std::string fixed_path = directory_->name_path(shard_.fixed_obs);
  const auto slice = [&](int i) {
    return fixed_file_->checked([&] { return slice_fixed(*batch, i, begin, end, fixed_path); });
  };
  arrow::FieldVector fields;
  arrow::ChunkedArrayVector columns;
  int next_text = 0;
  for (const auto& field : all->fields()) {
    const int i = batch->schema()->GetFieldIndex(field->name());
    columns.push_back(i < 0 ? texts->column(next_text++)
                            : std::make_shared<arrow::ChunkedArray>(slice(i)));
    fields.push_back(
        arrow::field(field->name(), columns.back()->type(), field->nullable(), field->metadata()));
  }
  return arrow::Table::Make(arrow::schema(std::move(fields), all->metadata()), std::move(columns),
                            end - begin);
}

}  // namespace cellfeed::format::shard
