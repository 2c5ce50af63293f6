// The module's table of contents.
#include "bindings.h"

NB_MODULE(_core, module) {
  module.doc() = "The C++ core of cellfeed. Use the names of the package cellfeed instead.";
  nanobind::set_leak_warnings(false);
  cellfeed::bindings::bind_errors(module);
  cellfeed::bindings::bind_cloud(module);
  cellfeed::bindings::bind_table(module);
  cellfeed::bindings::bind_collection(module);
  cellfeed::bindings::bind_filter(module);
  cellfeed::bindings::bind_sampling(module);
  cellfeed::bindings::bind_transform(module);
  cellfeed::bindings::bind_loader(module);
  cellfeed::bindings::bind_tuning(module);
  cellfeed::bindings::bind_convert(module);
  cellfeed::bindings::bind_shared_conversion(module);
  cellfeed::bindings::bind_config(module);
  cellfeed::bindings::bind_series(module);
  cellfeed::bindings::bind_series_windows(module);
}
