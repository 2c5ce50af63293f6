// Rows of an entity, scaled, written to their places in the files of a series directory.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "cellfeed/base/dtype.h"
#include "cellfeed/io/directory.h"
#include "cellfeed/series/entity_rows.h"
#include "cellfeed/series/metadata.h"
#include "cellfeed/series/placed_file.h"
#include "cellfeed/series/scaler.h"
#include "cellfeed/series/work.h"

namespace cellfeed::series {

// An entity whose rows follow those of the one before it.
struct EntityToWrite {
  std::int64_t entity = 0;
  std::int64_t scaler_entity = 0;  // whose numbers are taken where each entity has some
  RowsBefore before{};
};

// Entities that one thread writes one after another: the end of each group of them.
std::vector<std::int64_t> write_groups(const EntityTable& entities, std::int64_t row_bytes,
                                       int n_threads);

// Thread-safe: write.
class RowWriter {
 public:
  RowWriter(const SpilledRows& rows, const RowPolicy& policy, const Scaler& scaler, DType dtype,
            PlacedBytes& features, PlacedBytes& times)
      : rows_(rows),
        policy_(policy),
        scaler_(scaler),
        dtype_(dtype),
        features_(features),
        times_(times) {}

  // first_row: where the rows of the first begin. n_rows: of all. done(entity) is called after
  // each. Throws kPrecision for a value beyond the dtype, kNoSpace, kIo.
  void write(std::span<const EntityToWrite> entities, std::int64_t first_row, std::int64_t n_rows,
             std::int64_t memory, const std::function<void(std::int64_t)>& done = {}) const;

 private:
  template <typename T>
  void add(const EntityToWrite& entity, PlacedRun& features, PlacedRun& times,
           std::int64_t memory) const;
  [[noreturn]] void throw_beyond(std::int64_t entity, const RecordRows& row, const double* center,
                                 const double* scale) const;

  const SpilledRows& rows_;
  const RowPolicy& policy_;
  const Scaler& scaler_;
  const DType dtype_;
  PlacedBytes& features_;
  PlacedBytes& times_;
};

}  // namespace cellfeed::series
