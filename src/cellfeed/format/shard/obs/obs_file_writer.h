// ObsFileWriter: obs of one shard as shard_NNNNNN.parquet (every column) and shard_NNNNNN.arrow
// (fixed-width columns and, behind them, library sizes; one record batch, mappable). Memory: one
// row group plus the fixed-width columns of one shard. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "cellfeed/format/shard/manifest.h"
#include "cellfeed/format/shard/obs/obs_schema.h"
#include "cellfeed/io/temp_file.h"

namespace cellfeed::format::shard {

inline constexpr std::int64_t kObsRowGroupRows = 65536;

class ObsFileWriter {
 public:
  // stem: without ".parquet" / ".arrow".
  ObsFileWriter(const io::FileTarget& stem, std::shared_ptr<arrow::Schema> schema,
                bool keeps_library_sizes = false);
  ~ObsFileWriter();
  ObsFileWriter(ObsFileWriter&&) noexcept;

  // REQUIRES: conform_obs() to the schema. The bytes written do not depend on how rows are split
  // over calls.
  void append(const std::shared_ptr<arrow::Table>& obs);
  // Of the next cells; kept apart from obs. REQUIRES: keeps_library_sizes.
  void append_library_sizes(std::span<const double> sizes);
  std::int64_t n_cells() const;
  // Fills entry.obs and entry.fixed_obs; syncs and renames both. Throws kInternal
  // when library sizes are kept and not one for each cell.
  void finish(ShardEntry& entry);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cellfeed::format::shard
