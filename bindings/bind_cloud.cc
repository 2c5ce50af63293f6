// Paths that lead to buckets and servers.
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "cellfeed/cloud/cache/block_cache.h"
#include "cellfeed/cloud/cache/copies_under_way.h"
#include "cellfeed/cloud/http/range_fetcher.h"
#include "cellfeed/cloud/schemes.h"
#include "cellfeed/cloud/storage_options.h"
#include "cellfeed/io/cache_warnings.h"
#include "gil.h"

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
  nb::class_<cloud::SavedStorageOptions>(module, "SavedStorageOptions")
      .def(nb::init<const std::vector<std::string>&>(), nb::arg("paths"))
      .def("restore", &cloud::SavedStorageOptions::restore);
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
  module.def(
      "copies_under_way",
      [] {
        std::vector<std::tuple<std::string, std::int64_t, std::int64_t, double>> found;
        for (const cloud::CopyProgress& copy : cloud::copies_under_way())
          found.emplace_back(copy.of_object, copy.done, copy.total, copy.rate);
        return found;
      },
      "Of each copy that this process makes: the object, bytes done, bytes, bytes per second.");
  module.def("publish_blocks", &cloud::publish_blocks, nb::call_guard<ReleasedGil>(),
             "Blocks that were read lately are there for other processes, and for the next one.");
  module.def("take_cache_warnings", &io::take_cache_warnings,
             "What went wrong with blocks that are kept, while reading went on; each once.");
}

}  // namespace cellfeed::bindings
