// Parquet tables of any bytes: what opens gives rows that fit together, the same with and without a
// cache, or an error of the right kind.
#include <arrow/api.h>
#include <arrow/io/memory.h>
#include <parquet/arrow/writer.h>

#include <memory>
#include <string>
#include <utility>

#include "cellfeed/testing/temp_dir.h"
#include "fuzz/file_bytes.h"
#include "fuzz/store_reading.h"
#include "fuzz/target.h"

namespace {

namespace fuzz = cellfeed::fuzz;
using fuzz::require;

template <typename T>
T good(arrow::Result<T> result) {
  require(result.ok(), result.status().ToString());
  return *std::move(result);
}

std::shared_ptr<arrow::Array> column_of(const std::shared_ptr<arrow::DataType>& type, int n) {
  std::unique_ptr<arrow::ArrayBuilder> builder;
  require(arrow::MakeBuilder(arrow::default_memory_pool(), type, &builder).ok(), "a builder");
  for (int i = 0; i < n; ++i) {
    if (type->id() == arrow::Type::LIST) {
      auto& lists = static_cast<arrow::ListBuilder&>(*builder);
      require(lists.Append().ok(), "a list");
      for (int k = 0; k < i % 4; ++k) {
        if (type->field(0)->type()->id() == arrow::Type::INT64)
          require(static_cast<arrow::Int64Builder*>(lists.value_builder())->Append(i + k).ok(), "");
        else
          require(static_cast<arrow::FloatBuilder*>(lists.value_builder())
                      ->Append(static_cast<float>(k + 1))
                      .ok(),
                  "");
      }
    } else if (type->id() == arrow::Type::STRING) {
      require(static_cast<arrow::StringBuilder&>(*builder).Append("cell " + std::to_string(i)).ok(),
              "");
    } else {
      require(static_cast<arrow::FloatBuilder&>(*builder).Append(static_cast<float>(i % 3)).ok(),
              "");
    }
  }
  return good(builder->Finish());
}

std::vector<std::uint8_t> table_bytes(
    const std::vector<std::pair<std::string, std::shared_ptr<arrow::DataType>>>& columns,
    parquet::Compression::type compression, bool is_version2) {
  constexpr int kRows = 30;
  arrow::FieldVector fields;
  arrow::ArrayVector arrays;
  for (const auto& [name, type] : columns) {
    fields.push_back(arrow::field(name, type));
    arrays.push_back(column_of(type, kRows));
  }
  const auto sink = good(arrow::io::BufferOutputStream::Create());
  parquet::WriterProperties::Builder properties;
  properties.compression(compression);
  if (is_version2) properties.data_page_version(parquet::ParquetDataPageVersion::V2);
  require(parquet::arrow::WriteTable(*arrow::Table::Make(arrow::schema(fields), arrays),
                                     arrow::default_memory_pool(), sink, 8, properties.build())
              .ok(),
          "a table");
  const auto buffer = good(sink->Finish());
  return {buffer->data(), buffer->data() + buffer->size()};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const cellfeed::testing::TempDir dir;
  const std::string path = dir.file("a.parquet");
  fuzz::write_bytes(path, {data, data + size});
  const std::string cached = fuzz::StoreReading().read(path, 1 << 20);
  require(cached == fuzz::StoreReading().read(path, 0), "the same without a cache");
  return 0;
}

std::vector<std::vector<std::uint8_t>> cellfeed::fuzz::seed_inputs() {
  std::vector<std::vector<std::uint8_t>> seeds;
  for (const auto compression : {parquet::Compression::UNCOMPRESSED, parquet::Compression::SNAPPY})
    for (const bool is_version2 : {false, true}) {
      seeds.push_back(table_bytes({{"genes", arrow::list(arrow::int64())},
                                   {"name", arrow::utf8()},
                                   {"values", arrow::list(arrow::float32())}},
                                  compression, is_version2));
      seeds.push_back(
          table_bytes({{"name", arrow::utf8()}, {"A", arrow::float32()}, {"B", arrow::float32()}},
                      compression, is_version2));
    }
  return seeds;
}
