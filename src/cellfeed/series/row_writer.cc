#include "cellfeed/series/row_writer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "cellfeed/base/error.h"
#include "cellfeed/series/record_kernels.h"

namespace cellfeed::series {

std::vector<std::int64_t> write_groups(const EntityTable& entities, std::int64_t row_bytes,
                                       int n_threads) {
  std::int64_t n_rows = 0;
  for (std::int64_t e = 0; e < entities.size(); ++e) n_rows += entities.n_rows(e);
  const std::int64_t enough =
      std::clamp(n_rows * row_bytes / (8 * n_threads), 2 * kSegmentBytes, 16 * kSegmentBytes);
  std::vector<std::int64_t> ends;
  std::int64_t bytes = 0;
  for (std::int64_t e = 0; e < entities.size(); ++e) {
    bytes += entities.n_rows(e) * row_bytes;
    if (bytes < enough && e + 1 < entities.size()) continue;
    ends.push_back(e + 1);
    bytes = 0;
  }
  return ends;
}

void RowWriter::throw_beyond(std::int64_t entity, const RecordRows& row, const double* center,
                             const double* scale) const {
  const double most = dtype_ == DType::kF32 ? std::numeric_limits<float>::max()
                                            : std::numeric_limits<double>::max();
  const auto scaled = [&](std::size_t f) { return (row.value(0, f) - center[f]) / scale[f]; };
  std::size_t f = 0;
  while (f + 1 < scaler_.features.size() && !(std::abs(scaled(f)) > most)) ++f;
  throw_error(
      ErrorKind::kPrecision, "", "entity '{}', {}, feature '{}': {} is beyond what {} holds; {}",
      rows_.entities()[static_cast<std::size_t>(entity)], time_text(row.time(0), policy_.kind),
      scaler_.features[f], scaled(f), dtype_name(dtype_),
      dtype_ == DType::kF32 ? "take float64" : "leave out such values, or take no scaler");
}

template <typename T>
void RowWriter::add(const EntityToWrite& entity, PlacedRun& features, PlacedRun& times,
                    std::int64_t memory) const {
  const std::size_t n_features = scaler_.features.size();
  const std::size_t width = n_features * sizeof(T);
  const double* center = scaler_.center.data() + scaler_.first_of(entity.scaler_entity);
  const double* scale = scaler_.scale.data() + scaler_.first_of(entity.scaler_entity);
  const auto add_values = [&](RecordRows rows, std::int64_t n) {
    while (n > 0) {
      const std::span<std::byte> room = features.room();
      const auto some = std::min(n, static_cast<std::int64_t>(room.size() / width));
      auto* const out = reinterpret_cast<T*>(room.data());
      if (!scale_rows(rows.values(some), n_features, center, scale, out))
        for (std::int64_t i = 0; i < some; ++i)
          if (!scale_rows(rows.from(i).values(1), n_features, center, scale, out))
            throw_beyond(entity.entity, rows.from(i), center, scale);
      features.add(static_cast<std::size_t>(some) * width);
      rows = rows.from(some);
      n -= some;
    }
  };
  const auto add_times = [&](const RecordRows& rows, std::int64_t n) {
    for (std::int64_t i = 0; i < n;) {
      const std::span<std::byte> room = times.room();
      const auto end = std::min(n, i + static_cast<std::int64_t>(room.size() / 8));
      times.add(static_cast<std::size_t>(end - i) * 8);
      for (std::byte* out = room.data(); i < end; ++i, out += 8) {
        const std::int64_t time = rows.time(i);
        std::memcpy(out, &time, sizeof time);
      }
    }
  };
  each_row(
      rows_, entity.entity, policy_, memory,
      [&](const RecordRows& rows, std::int64_t n) {
        add_values(rows, n);
        add_times(rows, n);
      },
      entity.before);
}

void RowWriter::write(std::span<const EntityToWrite> entities, std::int64_t first_row,
                      std::int64_t n_rows, std::int64_t memory,
                      const std::function<void(std::int64_t)>& done) const {
  const auto width = static_cast<std::int64_t>(scaler_.features.size() * dtype_bytes(dtype_));
  PlacedRun features(features_, first_row * width, n_rows * width, width);
  PlacedRun times(times_, first_row * 8, n_rows * 8, 8);
  for (const EntityToWrite& entity : entities) {
    if (dtype_ == DType::kF32)
      add<float>(entity, features, times, memory);
    else
      add<double>(entity, features, times, memory);
    if (done) done(entity.entity);
  }
  features.flush();
  times.flush();
}

}  // namespace cellfeed::series
