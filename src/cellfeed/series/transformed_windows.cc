// Windows whose values are changed as they are cut, and predictions of these undone.
#include <algorithm>
#include <limits>

#include "cellfeed/base/error.h"
#include "cellfeed/io/directory.h"
#include "cellfeed/io/small_file.h"
#include "cellfeed/series/windows.h"

namespace cellfeed::series {

void SeriesWindows::begin_transforms() {
  const SeriesMetadata& metadata = rows_->metadata();
  if (options_.transforms.size() != metadata.features.size())
    throw_invalid("transforms are one a feature");
  if (std::ranges::all_of(options_.transforms, &ColumnTransform::is_none)) return;
  const bool has_steps = std::ranges::any_of(
      options_.transforms, [](const ColumnTransform& t) { return t.step != WindowStep::kNone; });
  lead_ = has_steps ? 1 : 0;
  const SeriesFile& file = metadata.file(kScalerName);
  const std::string path = io::Directory(rows_->dir()).path_of(file.name);
  scaler_ = parse_scaler(io::read_small_file(path, file.bytes), path);
}

ColumnScale SeriesWindows::scale_of(std::int64_t entity, std::int32_t column) const {
  const std::size_t i = scaler_->first_of(entity) + static_cast<std::size_t>(column);
  const double rounding = rows_->metadata().dtype == DType::kF32
                              ? 4 * std::numeric_limits<float>::epsilon()
                              : 4 * std::numeric_limits<double>::epsilon();
  return {scaler_->center[i], scaler_->scale[i], rounding};
}

void SeriesWindows::throw_not_positive(const Place& place, std::int32_t column) const {
  const SeriesMetadata& metadata = rows_->metadata();
  const auto e = static_cast<std::size_t>(place.entity);
  const std::int64_t row = rows_->stretch(place.entity, place.row).row;
  throw_error(
      ErrorKind::kPrecision, rows_->dir(),
      "the window of entity '{}' that begins at {} has values of '{}' that are not above 0, "
      "and these have no log returns; take differences, or leave this feature out",
      rows_->entities().names[e], time_text(rows_->times({&row, 1})[0], metadata.time_kind),
      metadata.features[static_cast<std::size_t>(column)]);
}

// n values of a column, beginning `lead_` rows before the place.
std::vector<double> SeriesWindows::column(const Place& place, const RowBytes& rows, std::int64_t n,
                                          std::int32_t column) const {
  const SeriesMetadata& metadata = rows_->metadata();
  const std::size_t width = metadata.features.size();
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(n));
  const auto add = [&]<typename T>(const T* from, std::int64_t some) {
    from += column;
    for (std::int64_t i = 0; i < some; ++i, from += width) values.push_back(double{*from});
  };
  rows_->each_stretch(place.entity, place.row - lead_, n, [&](std::int64_t row, std::int64_t some) {
    if (metadata.dtype == DType::kF32)
      add(reinterpret_cast<const float*>(rows.row(row)), some);
    else
      add(reinterpret_cast<const double*>(rows.row(row)), some);
  });
  return values;
}

void SeriesWindows::copy_transformed(const Place& place, const RowBytes& rows,
                                     const WindowParts& parts) const {
  const auto write = [&]<typename T>(std::span<const double> from, T* out, std::size_t width) {
    for (const double value : from) {
      *out = static_cast<T>(value);
      out += width;
    }
  };
  const auto fill = [&]<typename T>(T) {
    const auto cut = [&](std::span<const std::int32_t> columns, std::int64_t n, bool is_after_x,
                         T* out) {
      for (std::size_t c = 0; c < columns.size(); ++c) {
        std::vector<double> values = column(place, rows, lead_ + n, columns[c]);
        ColumnUndo undo;
        if (!transform_column(options_.transforms[static_cast<std::size_t>(columns[c])],
                              scale_of(place.entity, columns[c]), values, lead_, options_.window,
                              undo))
          throw_not_positive(place, columns[c]);
        const auto first = static_cast<std::size_t>(is_after_x ? lead_ + options_.window : lead_);
        write(std::span<const double>(values).subspan(first), out + c, columns.size());
      }
    };
    cut(options_.features, options_.window, false, reinterpret_cast<T*>(parts.x));
    const std::int64_t all = options_.window + options_.horizon;
    cut(options_.targets, all, true, reinterpret_cast<T*>(parts.y));
    cut(options_.future, all, true, reinterpret_cast<T*>(parts.future));
  };
  options_.dtype == DType::kF32 ? fill(float{}) : fill(double{});
}

void SeriesWindows::undo(std::span<const std::int64_t> indices, double* predictions) const {
  const std::size_t n_targets = options_.targets.size();
  std::vector<double> line(static_cast<std::size_t>(options_.horizon));
  std::vector<Extent> extents;
  for (const std::int64_t index : indices) add_extents(place(index), extents);
  const RowBytes rows = rows_->values(extents);
  for (const std::int64_t index : indices) {
    const Place at = place(index);
    for (std::size_t c = 0; c < n_targets; ++c) {
      const std::int32_t target = options_.targets[c];
      const ColumnTransform transform = options_.transforms[static_cast<std::size_t>(target)];
      const ColumnScale scale = scale_of(at.entity, target);
      std::vector<double> values = column(at, rows, lead_ + options_.window, target);
      ColumnUndo undo;
      if (!transform_column(transform, scale, values, lead_, options_.window, undo))
        throw_not_positive(at, target);
      for (std::size_t i = 0; i < line.size(); ++i) line[i] = predictions[i * n_targets + c];
      undo_column(transform, scale, undo, line);
      for (std::size_t i = 0; i < line.size(); ++i) predictions[i * n_targets + c] = line[i];
    }
    predictions += line.size() * n_targets;
  }
  rows_->require_all_pages();
}

}  // namespace cellfeed::series
