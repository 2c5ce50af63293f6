// The Parquet files of a shard directory: how they are written, and how columns of them are read.
#pragma once

#include <parquet/arrow/reader.h>
#include <parquet/arrow/writer.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cellfeed/format/decode_pool.h"

namespace arrow {
class Buffer;
class Schema;
class Table;
namespace io {
class OutputStream;
}
}  // namespace arrow

namespace cellfeed::format::shard {

// Writes zstd pages and Arrow's schema, with nothing that depends on the time or the machine.
std::unique_ptr<parquet::arrow::FileWriter> open_parquet_writer(
    const std::shared_ptr<arrow::Schema>& schema,
    const std::shared_ptr<arrow::io::OutputStream>& sink);

// A Parquet file whose tables take no more memory than its rows and columns may. Not thread-safe.
// Lifetime: tables outlive it. All that fails is kCorruptData, naming the path.
class ParquetFile {
 public:
  // what: of which the file must hold n_rows, for the message: "genes".
  ParquetFile(std::shared_ptr<arrow::Buffer> bytes, std::int64_t n_rows, const std::string& what,
              std::string path);

  std::shared_ptr<arrow::Schema> schema();
  // Rows [begin, end) of some columns, each value looked at. REQUIRES: rows within [0, n_rows).
  std::shared_ptr<arrow::Table> read(std::int64_t begin, std::int64_t end,
                                     const std::vector<int>& columns);
  std::shared_ptr<arrow::Table> read_all();

 private:
  void check_row_counts(std::int64_t n_rows, const std::string& what) const;

  std::string path_;
  std::optional<DecodePool> pool_;
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::shared_ptr<parquet::FileMetaData> metadata_;
};

}  // namespace cellfeed::format::shard
