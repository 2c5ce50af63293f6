#include "cellfeed/format/shard/parquet_file.h"

#include <arrow/api.h>
#include <arrow/io/memory.h>

#include <exception>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/arrow_file.h"

namespace cellfeed::format::shard {

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

std::unique_ptr<parquet::arrow::FileReader> open_parquet_reader(
    const std::shared_ptr<arrow::Buffer>& file, const std::string& path) {
  try {
    return arrow_value(parquet::arrow::OpenFile(std::make_shared<arrow::io::BufferReader>(file),
                                                arrow::default_memory_pool()),
                       path, ErrorKind::kCorruptData);
  } catch (const parquet::ParquetException& error) {
    throw_error(ErrorKind::kCorruptData, path, "not a readable Parquet file: {}", error.what());
  }
}

}  // namespace cellfeed::format::shard
