// Rows of an entity, scaled, written to their places in the files of a series directory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cellfeed/base/dtype.h"
#include "cellfeed/io/directory.h"
#include "cellfeed/series/entity_rows.h"
#include "cellfeed/series/metadata.h"
#include "cellfeed/series/placed_file.h"
#include "cellfeed/series/scaler.h"
#include "cellfeed/series/work.h"

namespace cellfeed::series {

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

  // first_row: where the rows begin. scaler_entity: whose numbers are taken where each entity has
  // some. Throws kPrecision for a value beyond the dtype, kNoSpace, kIo.
  void write(std::int64_t entity, std::int64_t first_row, std::int64_t scaler_entity,
             const RowsBefore& before, std::int64_t memory) const;

 private:
  template <typename T>
  void write_as(std::int64_t entity, std::int64_t first_row, std::int64_t scaler_entity,
                const RowsBefore& before, std::int64_t memory) const;
  [[noreturn]] void throw_beyond(std::int64_t entity, const double* record, const double* center,
                                 const double* scale) const;

  const SpilledRows& rows_;
  const RowPolicy& policy_;
  const Scaler& scaler_;
  const DType dtype_;
  PlacedBytes& features_;
  PlacedBytes& times_;
};

}  // namespace cellfeed::series
