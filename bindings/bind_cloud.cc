// Paths that lead to buckets and servers.
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>

#include "bindings.h"
#include "cellfeed/cloud/range_fetcher.h"
#include "cellfeed/cloud/schemes.h"
#include "cellfeed/cloud/storage_options.h"

namespace nb = nanobind;

namespace cellfeed::bindings {

void bind_cloud(nb::module_& module) {
  cloud::register_schemes();
  module.def(
      "set_storage_options",
      [](const std::string& path, const std::map<std::string, std::string>& options) {
        cloud::set_storage_options(path, {options.begin(), options.end()});
      },
      nb::arg("path"), nb::arg("options"),
      "How the bucket of this path is reached, in this process and those it forks.");
  module.def(
      "add_storage_option",
      [](const std::string& path, const std::string& name, const std::string& value) {
        cloud::add_storage_option(path, name, value);
      },
      nb::arg("path"), nb::arg("name"), nb::arg("value"),
      "One more beside the options of the bucket of this path.");
  module.def(
      "fetch_counts",
      [] {
        const cloud::FetchCounts counts = cloud::fetch_counts();
        return std::map<std::string, std::int64_t>{{"requests", counts.requests},
                                                   {"again", counts.again},
                                                   {"doubled", counts.doubled},
                                                   {"depth", counts.depth}};
      },
      "Requests for ranges of this process so far.");
}

}  // namespace cellfeed::bindings
