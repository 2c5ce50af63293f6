// Configuration files.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "cellfeed/config/config_text.h"
#include "cellfeed/io/small_file.h"
#include "paths.h"
#include "waiting_calls.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace cellfeed::bindings {
namespace {

nb::object as_object(const config::Value& value) {
  return std::visit(
      [](const auto& held) -> nb::object {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::monostate>)
          return nb::none();
        else
          return nb::cast(held);
      },
      value);
}

nb::dict load_config(const FilePath& path) {
  const config::Config loaded = call_released(!io::is_local(path.bytes), [&] {
    return config::Config::parse(io::read_small_file(path.bytes, config::kMaxConfigBytes),
                                 path.bytes);
  });
  nb::dict values;
  nb::list given;
  for (const config::Setting& setting : config::settings()) {
    const nb::str key(setting.key.data(), setting.key.size());
    values[key] = as_object(loaded.value(setting.key));
    if (loaded.is_given(setting.key)) given.append(key);
  }
  nb::dict out;
  out["values"] = values;
  out["given"] = given;
  out["has_preprocessing"] = loaded.is_given("data.preprocessing");
  out["text"] = config::effective_settings_yaml(loaded);
  return out;
}

}  // namespace

void bind_config(nb::module_& module) {
  module.def("load_config", &load_config, "path"_a);
  module.def("config_schema", &config::schema_json);
}

}  // namespace cellfeed::bindings
