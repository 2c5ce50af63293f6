#include "cellfeed/format/shard/shard_obs.h"

#include <arrow/api.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/reader.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>

#include "cellfeed/base/error.h"
#include "cellfeed/base/nearest_name.h"
#include "cellfeed/format/shard/arrow_file.h"
#include "cellfeed/format/shard/fixed_obs_builder.h"
#include "cellfeed/format/shard/obs_check.h"
#include "cellfeed/format/shard/obs_schema.h"
#include "cellfeed/format/shard/parquet_file.h"
#include "cellfeed/format/shard/shard_identity.h"
#include "cellfeed/io/local_file.h"

namespace cellfeed::format::shard {
namespace {

DType fixed_dtype(const arrow::DataType& type, const std::string& path) {
  const auto dtype = matrix::dtype_of_arrow(type);
  // Booleans are stored as bytes.
  if (dtype && *dtype != DType::kBool) return *dtype;
  throw_error(ErrorKind::kCorruptData, path, "a fixed-width column of an unexpected type: {}",
              type.ToString());
}

// Zero copy: the column's values are the file's bytes.
matrix::FixedColumn map_column(const arrow::Field& field,
                               const std::shared_ptr<arrow::Array>& array,
                               std::shared_ptr<const void> owner, const std::string& path) {
  matrix::FixedColumn column;
  column.name = field.name();
  column.length = array->length();
  column.owner = std::move(owner);
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

// Missing codes are -1 in the file; Arrow wants codes in range under its null bits only when it is
// told to look.
std::shared_ptr<arrow::Array> slice_fixed(const arrow::RecordBatch& batch, int i,
                                          std::int64_t begin, std::int64_t end,
                                          const std::string& path) {
  auto array = batch.column(i)->Slice(begin, end - begin);
  check_arrow(array->ValidateFull(), path, ErrorKind::kCorruptData);
  return is_stored_bool(*batch.schema()->field(i)) && array->type_id() == arrow::Type::UINT8
             ? bytes_to_bools(*array)
             : array;
}

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

std::shared_ptr<arrow::RecordBatch> ShardObs::fixed() const {
  const std::lock_guard lock(mutex_);
  if (fixed_) return fixed_;
  const std::string path = directory_->name_path(shard_.fixed_obs);
  const auto file = std::make_shared<arrow::io::BufferReader>(directory_->map(shard_.fixed_obs));
  const auto reader =
      arrow_value(arrow::ipc::RecordBatchFileReader::Open(file), path, ErrorKind::kCorruptData);
  check_shard_number(*reader->schema(), shard_.shard, path);
  if (reader->num_record_batches() != 1)
    throw_error(ErrorKind::kCorruptData, path, "must hold one record batch, not {}",
                reader->num_record_batches());
  auto batch = arrow_value(reader->ReadRecordBatch(0), path, ErrorKind::kCorruptData);
  check_fixed_obs(*batch, path);
  if (batch->num_rows() != shard_.n_cells)
    throw_error(ErrorKind::kCorruptData, path, "holds {} rows where the manifest says {}",
                batch->num_rows(), shard_.n_cells);
  fixed_ = std::move(batch);
  return fixed_;
}

std::shared_ptr<arrow::Schema> ShardObs::schema() const {
  const std::lock_guard lock(mutex_);
  if (schema_) return schema_;
  const std::string path = directory_->name_path(shard_.obs);
  parquet_ = directory_->map(shard_.obs);
  const auto reader = open_parquet_reader(parquet_, path);
  std::shared_ptr<arrow::Schema> schema;
  check_arrow(reader->GetSchema(&schema), path, ErrorKind::kCorruptData);
  check_shard_number(*schema, shard_.shard, path);
  if (reader->parquet_reader()->metadata()->num_rows() != shard_.n_cells)
    throw_error(ErrorKind::kCorruptData, path, "holds {} rows where the manifest says {}",
                reader->parquet_reader()->metadata()->num_rows(), shard_.n_cells);
  if (schema->num_fields() == 0 || schema->field(0)->name() != kIndexColumn)
    throw_error(ErrorKind::kCorruptData, path, "its first column must be '{}'", kIndexColumn);
  schema_ = schema;
  return schema_;
}

std::shared_ptr<arrow::Buffer> ShardObs::parquet() const {
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
  const auto batch = fixed();
  if (const int i = batch->schema()->GetFieldIndex(name); i >= 0)
    return map_column(*batch->schema()->field(i), batch->column(i), batch,
                      directory_->name_path(shard_.fixed_obs));
  const int i = schema()->GetFieldIndex(name);
  if (i < 0)
    throw_error(ErrorKind::kNoSuchKey, directory_->name_path(shard_.obs), "no obs column '{}'{}",
                name, suggestion(name, names()));
  return matrix::make_fixed_column(name, *read_parquet(0, shard_.n_cells, {i})->column(0));
}

std::shared_ptr<arrow::Table> ShardObs::read_parquet(std::int64_t begin, std::int64_t end,
                                                     const std::vector<int>& columns) const {
  const std::string path = directory_->name_path(shard_.obs);
  const auto reader = open_parquet_reader(parquet(), path);
  const RowGroups groups =
      overlapping_row_groups(*reader->parquet_reader()->metadata(), begin, end);
  const auto table =
      arrow_value(reader->ReadRowGroups(groups.numbers, columns), path, ErrorKind::kCorruptData);
  check_arrow(table->ValidateFull(), path, ErrorKind::kCorruptData);
  const auto rows = table->Slice(begin - groups.first_row, end - begin);
  if (rows->num_rows() != end - begin)
    throw_error(ErrorKind::kCorruptData, path, "holds fewer rows than its metadata say");
  return rows;
}

std::shared_ptr<arrow::Table> ShardObs::read(std::int64_t begin, std::int64_t end) const {
  if (begin < 0 || begin > end || end > shard_.n_cells)
    throw_error(ErrorKind::kOutOfRange, directory_->dir(),
                "obs rows out of range: [{}, {}), rows {}", begin, end, shard_.n_cells);
  const auto all = schema();
  const auto batch = fixed();
  std::vector<int> in_parquet;
  for (int i = 0; i < all->num_fields(); ++i)
    if (batch->schema()->GetFieldIndex(all->field(i)->name()) < 0) in_parquet.push_back(i);
  const auto texts = read_parquet(begin, end, in_parquet);
  const std::string fixed_path = directory_->name_path(shard_.fixed_obs);
  arrow::FieldVector fields;
  arrow::ChunkedArrayVector columns;
  int next_text = 0;
  for (const auto& field : all->fields()) {
    const int i = batch->schema()->GetFieldIndex(field->name());
    columns.push_back(i < 0 ? texts->column(next_text++)
                            : std::make_shared<arrow::ChunkedArray>(
                                  slice_fixed(*batch, i, begin, end, fixed_path)));
    fields.push_back(
        arrow::field(field->name(), columns.back()->type(), field->nullable(), field->metadata()));
  }
  return arrow::Table::Make(arrow::schema(std::move(fields), all->metadata()), std::move(columns),
                            end - begin);
}

}  // namespace cellfeed::format::shard
