// One bind_<layer> function for each layer that Python sees; module.cc calls them in order.
#pragma once

#include <nanobind/nanobind.h>

namespace cellfeed::bindings {

void bind_errors(nanobind::module_& module);
void bind_cloud(nanobind::module_& module);
void bind_table(nanobind::module_& module);
void bind_collection(nanobind::module_& module);
void bind_filter(nanobind::module_& module);
void bind_sampling(nanobind::module_& module);
void bind_transform(nanobind::module_& module);
void bind_loader(nanobind::module_& module);
void bind_tuning(nanobind::module_& module);
void bind_convert(nanobind::module_& module);
void bind_shared_conversion(nanobind::module_& module);
void bind_config(nanobind::module_& module);
void bind_series(nanobind::module_& module);
void bind_series_windows(nanobind::module_& module);

}  // namespace cellfeed::bindings
