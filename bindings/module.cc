// The module's table of contents.
#include <arrow/config.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <string_view>

#include "bindings.h"

#ifdef CELLFEED_HAS_OWN_ARROW
namespace {

// Where a package loaded its libarrow with RTLD_GLOBAL before, this module would call into that
// one.
void require_own_arrow() {
  Dl_info found{};
  if (dladdr(reinterpret_cast<const void*>(&arrow::GetBuildInfo), &found) == 0 ||
      std::string_view(found.dli_fname).ends_with("libcfarrow.so"))
    return;
  throw nanobind::import_error(
      fmt::format("another package loaded {} with RTLD_GLOBAL; import cellfeed._core before it",
                  found.dli_fname)
          .c_str());
}

}  // namespace
#endif

NB_MODULE(_core, module) {
#ifdef CELLFEED_HAS_OWN_ARROW
  require_own_arrow();
#endif
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
