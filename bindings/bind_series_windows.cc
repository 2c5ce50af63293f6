// Time series: directories that are read, and windows of their rows.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "cellfeed/base/checked_size.h"
#include "cellfeed/base/mix.h"
#include "cellfeed/series/windows.h"
#include "paths.h"
#include "waiting_calls.h"
#include "window_buffers.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace cellfeed::bindings {
namespace {

bool is_remote(const series::SeriesRows& rows) { return !io::is_local(rows.dir()); }

// What Python holds of a data set of windows.
struct Windows {
  series::SeriesWindows windows;
  std::shared_ptr<WindowBuffers> buffers = std::make_shared<WindowBuffers>();
};

NumpyArray window_array(const Windows& w, std::int64_t n, std::int64_t length, std::size_t width,
                        std::shared_ptr<std::byte[]> bytes) {
  const DType dtype = w.windows.options().dtype;
  const void* data = bytes.get();
  return untyped_as_array(dtype, data,
                          {static_cast<std::size_t>(n), static_cast<std::size_t>(length), width},
                          std::move(bytes));
}

nb::tuple copy_windows(const Windows& w, const Int64Array& indices, int threads) {
  const series::SeriesWindows& windows = w.windows;
  const auto n = static_cast<std::int64_t>(indices.size());
  const auto bytes_of = [&](std::int64_t bytes) {
    const CheckedSize total = CheckedSize(bytes) * n;
    if (!total.fits()) throw_invalid("a batch of {} windows is too large", n);
    return w.buffers->take(static_cast<std::size_t>(total.value()));
  };
  const series::WindowOptions& o = windows.options();
  auto x = bytes_of(windows.x_bytes());
  auto y = bytes_of(windows.y_bytes());
  auto future = o.future.empty() ? nullptr : bytes_of(windows.future_bytes());
  call_released(is_remote(windows.rows()), [&] {
    windows.copy({indices.data(), static_cast<std::size_t>(n)}, {x.get(), y.get(), future.get()},
                 threads);
  });
  nb::object ahead = nb::none();
  if (future) ahead = nb::cast(window_array(w, n, o.horizon, o.future.size(), std::move(future)));
  return nb::make_tuple(window_array(w, n, o.window, o.features.size(), std::move(x)),
                        window_array(w, n, o.horizon, o.targets.size(), std::move(y)), ahead);
}

// Entities, and first rows counted in them.
nb::tuple locate_windows(const Windows& w, const Int64Array& indices) {
  std::vector<std::int64_t> entities, rows;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const auto place = w.windows.place(indices.data()[i]);
    entities.push_back(place.entity);
    rows.push_back(place.row);
  }
  return nb::make_tuple(vector_as_array(std::move(entities)), vector_as_array(std::move(rows)));
}

// Windows lie entity by entity: these, and how many windows each has.
nb::tuple runs_of_windows(const Windows& w) {
  std::vector<std::int64_t> counts(w.windows.ends().size());
  std::adjacent_difference(w.windows.ends().begin(), w.windows.ends().end(), counts.begin());
  return nb::make_tuple(vector_as_array(std::vector(w.windows.options().entities)),
                        vector_as_array(std::move(counts)));
}

// Of the last rows of X.
NumpyArray times_of_windows(const Windows& w, const Int64Array& indices) {
  const series::SeriesRows& rows = w.windows.rows();
  std::vector<std::int64_t> last;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const auto place = w.windows.place(indices.data()[i]);
    last.push_back(rows.stretch(place.entity, place.row + w.windows.options().window - 1).row);
  }
  return vector_as_array(call_released(is_remote(rows), [&] {
    std::vector<std::int64_t> times = rows.times(last);
    rows.require_all_pages();
    return times;
  }));
}

// Of what was asked for, and of what was read of files whatever their times say.
std::uint64_t content_of(const series::SeriesMetadata& metadata) {
  std::uint64_t hash = metadata.plan;
  for (const series::SeriesFile& file : metadata.files)
    hash = mix(mix(hash, file.name), file.checksum);
  return hash;
}

nb::dict describe_rows(const series::SeriesRows& rows) {
  const series::SeriesMetadata& m = rows.metadata();
  nb::dict out;
  out["features"] = m.features;
  out["target"] = m.target;
  out["dtype"] = std::string(dtype_name(m.dtype));
  out["n_rows"] = m.n_rows;
  out["n_entities"] = m.n_entities;
  out["time_kind"] = std::string(series::time_kind_name(m.time_kind));
  out["scaler"] = std::string(series::scaler_kind_name(m.scaler));
  out["scale"] = std::string(series::scale_of_name(m.scale));
  out["fit_until"] = m.fit_until;
  out["fit_mask"] = m.fit_mask;
  out["fit_last_time"] = m.fit_last_time;
  out["static"] = m.columns.static_columns;
  out["window"] = m.window;
  out["horizon"] = m.horizon;
  out["stride"] = m.stride;
  out["fingerprint"] = content_of(m);
  return out;
}

// Of each static column a list, an entry an entity: texts, or numbers; None where it has none.
nb::list static_columns(const series::SeriesRows& rows) {
  const series::StaticTable& statics = rows.entities().statics;
  nb::list out;
  for (std::size_t c = 0; c < statics.n_cols(); ++c) {
    nb::list column;
    for (std::int64_t e = 0; e < rows.entities().size(); ++e) {
      const series::StaticValue& value = statics.value(e, c);
      if (const auto* number = std::get_if<double>(&value))
        column.append(*number);
      else if (const auto* text = std::get_if<std::string>(&value))
        column.append(nb::str(text->data(), text->size()));
      else
        column.append(nb::none());
    }
    out.append(column);
  }
  return out;
}

std::shared_ptr<const series::SeriesRows> open_rows(const FilePath& dir,
                                                    const std::string& access) {
  series::RowReading reading;
  reading.access = series::row_access_from_name(access);
  return call_released(!io::is_local(dir.bytes),
                       [&] { return series::SeriesRows::open(dir.bytes, std::move(reading)); });
}

std::shared_ptr<Windows> make_windows(
    std::shared_ptr<series::SeriesRows> rows, std::int64_t window, std::int64_t horizon,
    std::int64_t stride, std::vector<std::int32_t> features, std::vector<std::int32_t> targets,
    std::vector<std::int32_t> future, const Int64Array& entities, std::optional<std::int64_t> from,
    std::optional<std::int64_t> until, std::int64_t purge, bool splits_at_gaps,
    std::optional<std::int64_t> max_gap, const std::string& dtype, std::vector<std::string> steps,
    std::vector<std::string> norms) {
  series::WindowOptions options{.window = window,
                                .horizon = horizon,
                                .stride = stride,
                                .features = std::move(features),
                                .targets = std::move(targets),
                                .future = std::move(future),
                                .entities = {entities.data(), entities.data() + entities.size()},
                                .from = from,
                                .until = until,
                                .purge = purge,
                                .gaps = {splits_at_gaps, max_gap},
                                .dtype = dtype_from_name(dtype),
                                .transforms = {}};
  for (std::size_t i = 0; i < steps.size(); ++i)
    options.transforms.push_back(
        {series::window_step_from_name(steps[i]), series::window_norm_from_name(norms.at(i))});
  return call_released(is_remote(*rows), [&] {
    return std::make_shared<Windows>(
        Windows{.windows = series::SeriesWindows(std::move(rows), std::move(options))});
  });
}

}  // namespace

void bind_series_windows(nb::module_& module) {
  nb::class_<series::SeriesRows>(module, "SeriesRows")
      .def("describe", &describe_rows)
      .def("entity_names", [](const series::SeriesRows& r) { return r.entities().names; })
      .def("statics", &static_columns)
      .def(
          "entity_name",
          [](const series::SeriesRows& r, std::int64_t entity) {
            if (entity < 0 || entity >= r.entities().size())
              throw_error(ErrorKind::kOutOfRange, "", "entity {} of {}", entity,
                          r.entities().size());
            return r.entities().names[static_cast<std::size_t>(entity)];
          },
          "entity"_a)
      .def(
          "rows_before",
          [](const series::SeriesRows& r, const Int64Array& entities, std::int64_t time) {
            return call_released(is_remote(r), [&] {
              return r.rows_before({entities.data(), entities.size()}, time);
            });
          },
          "entities"_a, "time"_a)
      .def(
          "parse_step",
          [](const series::SeriesRows& r, const std::string& text, const std::string& argument) {
            return series::step_from_text(text, r.metadata().time_kind, argument);
          },
          "text"_a, "argument"_a)
      .def(
          "parse_time",
          [](const series::SeriesRows& r, const std::string& text, const std::string& argument) {
            return series::time_from_text(text, r.metadata().time_kind, argument);
          },
          "text"_a, "argument"_a);
  nb::class_<Windows>(module, "SeriesWindows")
      .def_prop_ro("size", [](const Windows& w) { return w.windows.size(); })
      .def_prop_ro("n_short", [](const Windows& w) { return w.windows.n_short(); })
      .def_prop_ro("n_gaps", [](const Windows& w) { return w.windows.n_gaps(); })
      .def("copy", &copy_windows, "indices"_a, "threads"_a)
      .def(
          "will_read",
          [](const Windows& w, const Int64Array& indices) {
            const ReleasedGil released;
            w.windows.will_read({indices.data(), indices.size()});
          },
          "indices"_a)
      .def("locate", &locate_windows, "indices"_a)
      .def("runs", &runs_of_windows)
      .def("times", &times_of_windows, "indices"_a)
      .def(
          "undo",
          [](const Windows& w, const Int64Array& indices, std::vector<double> predictions) {
            const series::WindowOptions& o = w.windows.options();
            if (predictions.size() !=
                indices.size() * static_cast<std::size_t>(o.horizon) * o.targets.size())
              throw_invalid("predictions are horizon x targets of each window");
            {
              const ReleasedGil released;
              w.windows.undo({indices.data(), indices.size()}, predictions.data());
            }
            return vector_as_array(std::move(predictions));
          },
          "indices"_a, "predictions"_a);
  module.def(
      "open_series_rows",
      [](const FilePath& dir, const std::string& access) {
        return std::const_pointer_cast<series::SeriesRows>(open_rows(dir, access));
      },
      "path"_a, "access"_a);
  module.def("make_series_windows", &make_windows, "rows"_a, "window"_a, "horizon"_a, "stride"_a,
             "features"_a, "targets"_a, "future"_a, "entities"_a, "since"_a.none(),
             "until"_a.none(), "purge"_a, "splits_at_gaps"_a, "max_gap"_a.none(), "dtype"_a,
             "steps"_a, "norms"_a);
}

}  // namespace cellfeed::bindings
