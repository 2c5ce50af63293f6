// The Parquet files of a shard directory: how they are written, and how columns of them are read.
#pragma once

#include <parquet/arrow/reader.h>
#include <parquet/arrow/writer.h>

#include <memory>
#include <string>

namespace arrow {
class Buffer;
class Schema;
namespace io {
class OutputStream;
}
}  // namespace arrow

namespace cellfeed::format::shard {

// Writes zstd pages and Arrow's schema, with nothing that depends on the time or the machine.
std::unique_ptr<parquet::arrow::FileWriter> open_parquet_writer(
    const std::shared_ptr<arrow::Schema>& schema,
    const std::shared_ptr<arrow::io::OutputStream>& sink);
// Throws kCorruptData naming the path.
std::unique_ptr<parquet::arrow::FileReader> open_parquet_reader(
    const std::shared_ptr<arrow::Buffer>& file, const std::string& path);

}  // namespace cellfeed::format::shard
