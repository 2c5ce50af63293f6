#include "cellfeed/convert/inputs/collection_sources.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/collection/filter.h"
#include "cellfeed/convert/inputs/selected_store.h"
#include "cellfeed/convert/inputs/written_name.h"

namespace cellfeed::convert {
namespace {

using collection::Collection;

std::vector<std::unique_ptr<format::RowStore>> stores_of(const Collection& cells) {
  std::vector<std::shared_ptr<const format::RowStore>> shared;
  for (std::int64_t s = 0; s < cells.n_stores(); ++s) shared.push_back(cells.shared_store(s));
  if (cells.has_selected_rows())
    return select_rows(shared, cells.n_rows(), [&](std::int64_t i) { return cells.locate(i); });
  std::vector<std::unique_ptr<format::RowStore>> stores;
  for (auto& store : shared) stores.push_back(all_rows(std::move(store)));
  return stores;
}

std::vector<std::string> paths_of(const Collection& cells) {
  std::vector<std::string> paths;
  for (std::int64_t s = 0; s < cells.n_stores(); ++s) {
    const std::string& path = cells.store(s).info().path;
    if (paths.empty() || paths.back() != path) paths.push_back(path);
  }
  return paths;
}

Sources sources_of_matrix(const Collection& cells, bool make_unique, bool is_beside,
                          const ObsChoice& obs = {}, Origins origins = Origins::kNone,
                          const std::vector<ObsSample>& obs_before = {},
                          std::shared_ptr<const collection::GeneTable> behind = {}) {
  SourceOptions options;
  options.paths = paths_of(cells);
  options.origins = origins;
  options.obs_choice = obs;
  options.obs_before = obs_before;
  options.layer = cells.store(0).info().layer;
  options.is_beside = is_beside;
  options.allows_mixed_processing = cells.allows_mixed_processing();
  if (!format::is_obsm(options.layer)) {
    options.genes = cells.genes().names;
    options.var_keys = cells.var_keys();
    options.make_unique = make_unique;
    options.behind = std::move(behind);
  }
  return Sources::over(stores_of(cells), options);
}

}  // namespace

Sources sources_of(const ChosenCells& chosen, const ObsChoice& obs, Origins origins,
                   const std::vector<ObsSample>& obs_before,
                   std::shared_ptr<const collection::GeneTable> behind) {
  if (chosen.cells->genes().size() == 0)
    throw_invalid("the cells were opened without genes (layer none): open them with a matrix");
  return sources_of_matrix(*chosen.cells, chosen.make_unique, false, obs, origins, obs_before,
                           std::move(behind));
}

std::vector<MatrixSource> matrices_of(const ChosenCells& chosen) {
  std::vector<MatrixSource> matrices;
  for (std::size_t m = 1; m < chosen.cells->n_matrices(); ++m) {
    const std::string& name = chosen.cells->matrix_name(m);
    const bool is_obsm = format::is_obsm(name);
    const auto names = is_obsm ? matrix_names({}, {name}) : matrix_names({name}, {});
    matrices.push_back({written_name(names[0]),
                        std::make_unique<Sources>(sources_of_matrix(
                            chosen.cells->matrix(m), chosen.make_unique && !is_obsm, true))});
  }
  return matrices;
}

std::vector<std::string> paths_of(const ChosenCells& chosen) { return paths_of(*chosen.cells); }

std::string selection_json(std::int64_t cells_of, const std::vector<std::string>& steps) {
  const nlohmann::json json = {{"cells_of", cells_of}, {"steps", steps}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string selection_json(const ChosenCells& chosen) {
  if (chosen.steps.empty() && !chosen.cells->has_selected_rows()) return "{}";
  return selection_json(chosen.cells->n_stored_rows(), chosen.steps);
}

FilteredRows filter_rows(const SourceOptions& options, const std::string& filter,
                         exec::ThreadPool& pool) {
  if (filter.empty()) return {};
  collection::CollectionOptions obs_alone;
  obs_alone.open.layer = format::kNoLayer;
  obs_alone.open.choice.modality = options.choice.modality;
  const auto cells = Collection::open(options.paths, obs_alone);
  const collection::Filter where(cells, filter);
  auto rows = where.rows([&](std::int64_t n, const std::function<void(std::int64_t)>& task) {
    pool.parallel_for(n, task);
  });
  if (rows.empty()) throw_invalid("the filter leaves none of the {} cells", cells->n_rows());
  FilteredRows filtered;
  filtered.rows = std::make_shared<const std::vector<std::int64_t>>(std::move(rows));
  filtered.warnings = where.warnings();
  filtered.selection_json = selection_json(cells->n_rows(), {"filter: " + filter});
  return filtered;
}

}  // namespace cellfeed::convert
