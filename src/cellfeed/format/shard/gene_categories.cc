#include "cellfeed/format/shard/gene_categories.h"

#include <arrow/api.h>
#include <arrow/compute/api.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/util/base64.h>
#include <arrow/util/key_value_metadata.h>

#include <unordered_map>
#include <vector>

#include "cellfeed/format/decode_pool.h"
#include "cellfeed/format/shard/arrow_file.h"
#include "cellfeed/format/shard/decoded_bytes.h"

namespace cellfeed::format::shard {
namespace {

using ArrayPtr = std::shared_ptr<arrow::Array>;
using TablePtr = std::shared_ptr<arrow::Table>;

std::string category_name(const arrow::Array& array, std::int64_t i, const std::string& path) {
  if (array.type_id() == arrow::Type::STRING)
    return static_cast<const arrow::StringArray&>(array).GetString(i);
  return arrow_value(array.GetScalar(i), path, ErrorKind::kCorruptData)->ToString();
}

// Code of each value of `values` among the categories.
std::vector<std::int64_t> find_codes(const arrow::Array& values, const arrow::Array& categories,
                                     const std::string& path) {
  std::unordered_map<std::string, std::int64_t> known;
  for (std::int64_t i = 0; i < categories.length(); ++i)
    known.emplace(category_name(categories, i, path), i);
  std::vector<std::int64_t> codes;
  for (std::int64_t i = 0; i < values.length(); ++i) {
    const auto found = known.find(category_name(values, i, path));
    if (found == known.end())
      throw_error(ErrorKind::kCorruptData, path,
                  "a var column holds a value that is none of its categories: '{}'",
                  category_name(values, i, path));
    codes.push_back(found->second);
  }
  return codes;
}

ArrayPtr restore_column(const arrow::ChunkedArray& column, const arrow::DictionaryArray& noted,
                        const std::string& path) {
  ArrayPtr array = arrow_value(arrow::Concatenate(column.chunks()), path, ErrorKind::kCorruptData);
  if (array->type_id() != arrow::Type::DICTIONARY)
    array = arrow_value(arrow::compute::DictionaryEncode(array), path, ErrorKind::kCorruptData)
                .make_array();
  const auto& encoded = static_cast<const arrow::DictionaryArray&>(*array);
  const ArrayPtr values =
      arrow_value(arrow::compute::Cast(*encoded.dictionary(), noted.dictionary()->type()), path,
                  ErrorKind::kCorruptData);
  const auto codes = find_codes(*values, *noted.dictionary(), path);
  arrow::Int64Builder builder;
  check_arrow(builder.Reserve(encoded.length()), path, ErrorKind::kInternal);
  for (std::int64_t i = 0; i < encoded.length(); ++i) {
    if (encoded.IsNull(i))
      builder.UnsafeAppendNull();
    else
      builder.UnsafeAppend(codes[static_cast<std::size_t>(encoded.GetValueIndex(i))]);
  }
  const ArrayPtr wide = arrow_value(builder.Finish(), path, ErrorKind::kInternal);
  const auto& type = static_cast<const arrow::DictionaryType&>(*noted.type());
  const ArrayPtr narrow =
      arrow_value(arrow::compute::Cast(*wide, type.index_type()), path, ErrorKind::kCorruptData);
  return arrow_value(arrow::DictionaryArray::FromArrays(noted.type(), narrow, noted.dictionary()),
                     path, ErrorKind::kCorruptData);
}

TablePtr read_note(const std::string& note, const std::string& path) {
  const auto buffer = arrow::Buffer::FromString(
      arrow_value(arrow::util::base64_decode(note), path, ErrorKind::kCorruptData));
  const DecodePool pool(max_decoded_bytes(buffer->size(), 1, 1));
  auto options = arrow::ipc::IpcReadOptions::Defaults();
  options.memory_pool = pool.get();
  options.use_threads = false;
  const auto reader = pool.value(arrow::ipc::RecordBatchStreamReader::Open(
                                     std::make_shared<arrow::io::BufferReader>(buffer), options),
                                 path);
  const TablePtr noted = pool.value(reader->ToTable(), path);
  pool.check(noted->ValidateFull(), path);
  return noted;
}

}  // namespace

TablePtr note_categories(const TablePtr& table, const std::string& path) {
  std::vector<int> categorical;
  for (int i = 0; i < table->num_columns(); ++i)
    if (table->field(i)->type()->id() == arrow::Type::DICTIONARY) categorical.push_back(i);
  if (categorical.empty() || table->num_rows() == 0) return table;
  // One row is enough: a batch carries its dictionaries whole.
  const TablePtr row =
      arrow_value(arrow_value(table->SelectColumns(categorical), path, ErrorKind::kInternal)
                      ->Slice(0, 1)
                      ->CombineChunks(),
                  path, ErrorKind::kInternal);
  const auto sink =
      arrow_value(arrow::io::BufferOutputStream::Create(), path, ErrorKind::kInternal);
  const auto writer =
      arrow_value(arrow::ipc::MakeStreamWriter(sink, row->schema()), path, ErrorKind::kInternal);
  check_arrow(writer->WriteTable(*row), path, ErrorKind::kInternal);
  check_arrow(writer->Close(), path, ErrorKind::kInternal);
  const auto bytes = arrow_value(sink->Finish(), path, ErrorKind::kInternal);
  const auto old = table->schema()->metadata();
  auto metadata = old ? old->Copy() : std::make_shared<arrow::KeyValueMetadata>();
  check_arrow(metadata->Set(kCategoriesKey, arrow::util::base64_encode(std::string_view(*bytes))),
              path, ErrorKind::kInternal);
  return table->ReplaceSchemaMetadata(metadata);
}

TablePtr restore_categories(const TablePtr& table, const std::string& path) {
  const auto metadata = table->schema()->metadata();
  const int key = metadata ? metadata->FindKey(kCategoriesKey) : -1;
  if (key < 0) return table;
  const TablePtr noted = read_note(metadata->value(key), path);
  TablePtr restored = table;
  for (int i = 0; i < noted->num_columns(); ++i) {
    const std::string& name = noted->field(i)->name();
    const int column = restored->schema()->GetFieldIndex(name);
    if (column < 0 || noted->field(i)->type()->id() != arrow::Type::DICTIONARY ||
        noted->column(i)->num_chunks() == 0)
      throw_error(ErrorKind::kCorruptData, path,
                  "categories are noted for a column that is not there: '{}'", name);
    const auto& dictionary =
        static_cast<const arrow::DictionaryArray&>(*noted->column(i)->chunk(0));
    restored = arrow_value(restored->SetColumn(column, noted->field(i),
                                               std::make_shared<arrow::ChunkedArray>(restore_column(
                                                   *restored->column(column), dictionary, path))),
                           path, ErrorKind::kInternal);
  }
  auto rest = metadata->Copy();
  check_arrow(rest->Delete(kCategoriesKey), path, ErrorKind::kInternal);
  return restored->ReplaceSchemaMetadata(rest->size() > 0 ? rest : nullptr);
}

}  // namespace cellfeed::format::shard
