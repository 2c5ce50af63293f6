// Any bytes as a CSV file of a time series: a named error, or as many times, numbers and names as
// there are rows.
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "cellfeed/base/error.h"
#include "cellfeed/series/row_source.h"
#include "fuzz/target.h"

namespace {

namespace series = cellfeed::series;

void require(bool holds) {
  if (!holds) std::abort();
}

std::string scratch_file() {
  static const std::string path =
      (std::filesystem::temp_directory_path() / ("series_csv_fuzz_" + std::to_string(::getpid())))
          .string();
  return path;
}

void read(const series::RowColumns& columns) {
  series::RowSource source(scratch_file(), columns, false, 1 << 24);
  series::RowBlock block(columns.n_values());
  while (source.next(7, block)) {
  }
  require(block.records.n_rows() == block.entities.size());
  for (std::int64_t i = 0; i < block.n_rows(); ++i)
    for (std::size_t f = 0; f < columns.n_values(); ++f)
      require(!std::isinf(block.records.rows().value(i, f)));
  for (const std::uint32_t entity : block.entities) require(entity < source.entities().size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::ofstream(scratch_file(), std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  for (const series::Missing missing : {series::Missing::kDrop, series::Missing::kNan})
    for (const bool has_fields : {false, true}) try {
        read({.features = {"v"},
              .time = has_fields ? std::vector<std::string>{"t", "m", "d"}
                                 : std::vector<std::string>{"t"},
              .time_unit = {},
              .entity = "e",
              .entity_pattern = {},
              .static_columns = {},
              .fit_mask = {},
              .numbers = {},
              .missing = missing});
      } catch (const cellfeed::Error& error) {
        require(error.kind() == cellfeed::ErrorKind::kCorruptData ||
                error.kind() == cellfeed::ErrorKind::kNoSuchKey);
      }
  std::remove(scratch_file().c_str());
  return 0;
}

std::vector<std::vector<std::uint8_t>> cellfeed::fuzz::seed_inputs() {
  std::vector<std::vector<std::uint8_t>> seeds;
  for (const std::string text :
       {"t,v,e\n2020-01-01,1.5,a\n2020-01-02T10:00:00Z,NA,\"b\"\"c\"\n",
        "\"e\",\"t\",\"m\",\"d\",\"v\"\r\nx,2020,1,31,-1e5\r\ny,2021,2,29,3",
        "v,t,e\n1,5,a\n,6,b\n\n3,NA,\n"})
    seeds.emplace_back(text.begin(), text.end());
  return seeds;
}
