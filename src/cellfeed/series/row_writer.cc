#include "cellfeed/series/row_writer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "cellfeed/base/error.h"
#include "cellfeed/series/record_kernels.h"

namespace cellfeed::series {
namespace {

// Bytes of values gathered before they are written.
constexpr std::int64_t kWriteBytes = std::int64_t{1} << 20;

}  // namespace

void RowWriter::throw_beyond(std::int64_t entity, const double* record, const double* center,
                             const double* scale) const {
  const double most = dtype_ == DType::kF32 ? std::numeric_limits<float>::max()
                                            : std::numeric_limits<double>::max();
  std::size_t f = 0;
  while (f + 1 < scaler_.features.size() &&
         !(std::abs((record[f + 1] - center[f]) / scale[f]) > most))
    ++f;
  throw_error(ErrorKind::kPrecision, "",
              "entity '{}', {}, feature '{}': {} is beyond what {} holds; take float64",
              rows_.entities()[static_cast<std::size_t>(entity)],
              time_text(record_time(record), policy_.kind), scaler_.features[f],
              (record[f + 1] - center[f]) / scale[f], dtype_name(dtype_));
}

template <typename T>
void RowWriter::write_as(std::int64_t entity, std::int64_t first_row, std::int64_t scaler_entity,
                         const RowsBefore& before, std::int64_t memory) const {
  const std::size_t n_features = scaler_.features.size();
  const std::size_t stride = rows_.n_values() + 1;
  const auto width = static_cast<std::int64_t>(n_features * sizeof(T));
  const double* center = scaler_.center.data() + scaler_.first_of(scaler_entity);
  const double* scale = scaler_.scale.data() + scaler_.first_of(scaler_entity);
  const std::int64_t together = std::max<std::int64_t>(1, kWriteBytes / width);
  const std::int64_t most = std::min(together, rows_.n_rows(entity));
  const auto values =
      std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(most) * n_features);
  std::vector<std::int64_t> stamps;
  const auto flush = [&] {
    const auto n = static_cast<std::size_t>(std::ssize(stamps));
    features_.write_at(first_row * width, std::as_bytes(std::span(values.get(), n * n_features)));
    times_.write_at(first_row * 8, std::as_bytes(std::span(stamps)));
    first_row += std::ssize(stamps);
    stamps.clear();
  };
  const auto add = [&](const double* records, std::int64_t n) {
    while (n > 0) {
      const std::int64_t some = std::min(n, together - std::ssize(stamps));
      T* const out = values.get() + stamps.size() * n_features;
      const NumberRows rows{records + 1, static_cast<std::size_t>(some), stride};
      if (!scale_rows(rows, n_features, center, scale, out))
        for (std::size_t i = 0; i < rows.n; ++i) {
          const double* record = records + i * stride;
          if (!scale_rows({record + 1, 1, stride}, n_features, center, scale, out))
            throw_beyond(entity, record, center, scale);
        }
      for (std::int64_t i = 0; i < some; ++i, records += stride)
        stamps.push_back(record_time(records));
      n -= some;
      if (std::ssize(stamps) == together) flush();
    }
  };
  each_row(rows_, entity, policy_, memory, add, before);
  flush();
}

void RowWriter::write(std::int64_t entity, std::int64_t first_row, std::int64_t scaler_entity,
                      const RowsBefore& before, std::int64_t memory) const {
  if (dtype_ == DType::kF32)
    write_as<float>(entity, first_row, scaler_entity, before, memory);
  else
    write_as<double>(entity, first_row, scaler_entity, before, memory);
}

}  // namespace cellfeed::series
