// Where Parquet files are opened, of cells, of shards and of series alike: checksums of pages are
// compared wherever they are written. Thread-safe: pure.
#pragma once

#include <arrow/io/interfaces.h>
#include <arrow/result.h>
#include <parquet/arrow/reader.h>
#include <parquet/metadata.h>
#include <parquet/properties.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace cellfeed::format {

struct ParquetReading {
  std::shared_ptr<parquet::FileMetaData> metadata{};  // null: it is read
  std::int64_t batch_rows = 0;                        // 0: as Arrow likes
  // Bytes of a column that are read at a time; 0: whole chunks.
  std::int64_t buffer_bytes = 0;
  std::vector<int> dictionary_leaves{};  // whose texts are not repeated
};

// pool: outlives the reader. Throws parquet::ParquetException.
inline arrow::Result<std::unique_ptr<parquet::arrow::FileReader>> open_parquet_reader(
    std::shared_ptr<arrow::io::RandomAccessFile> file, arrow::MemoryPool* pool,
    const ParquetReading& reading = {}) {
  parquet::ReaderProperties properties(pool);
  properties.set_page_checksum_verification(true);
  if (reading.buffer_bytes > 0) {
    properties.enable_buffered_stream();
    properties.set_buffer_size(reading.buffer_bytes);
  }
  parquet::ArrowReaderProperties arrow_properties;
  arrow_properties.set_pre_buffer(false);
  if (reading.batch_rows > 0) arrow_properties.set_batch_size(reading.batch_rows);
  for (const int leaf : reading.dictionary_leaves) arrow_properties.set_read_dictionary(leaf, true);
  parquet::arrow::FileReaderBuilder builder;
  ARROW_RETURN_NOT_OK(builder.Open(std::move(file), properties, reading.metadata));
  return builder.memory_pool(pool)->properties(arrow_properties)->Build();
}

}  // namespace cellfeed::format
