// Transforms that run on the loader's threads.
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "cellfeed/transform/normalize.h"
#include "cellfeed/transform/select_genes.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace cellfeed::bindings {

void bind_transform(nb::module_& module) {
  nb::class_<transform::Transform>(module, "Transform")
      .def_prop_ro("name", &transform::Transform::name)
      .def("__repr__", [](const transform::Transform& self) { return self.name() + "(...)"; });
  nb::class_<transform::NormalizeTotal, transform::Transform>(module, "NormalizeTotal")
      .def(nb::new_([](double target_sum, bool is_forced) {
             return std::make_shared<transform::NormalizeTotal>(target_sum, is_forced);
           }),
           "target_sum"_a, "is_forced"_a)
      .def_prop_ro("target_sum", &transform::NormalizeTotal::target_sum);
  nb::class_<transform::Log1p, transform::Transform>(module, "Log1p")
      .def(nb::new_([](double base, bool is_forced) {
             return std::make_shared<transform::Log1p>(base, is_forced);
           }),
           "base"_a, "is_forced"_a);
  nb::class_<transform::SelectGenes, transform::Transform>(module, "SelectGenes")
      .def(nb::new_([](std::vector<std::string> genes) {
             return std::make_shared<transform::SelectGenes>(std::move(genes));
           }),
           "genes"_a);
}

}  // namespace cellfeed::bindings
