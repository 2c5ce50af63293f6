#include "cellfeed/convert/inputs/input_cells.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "cellfeed/base/argument_text.h"
#include "cellfeed/base/error.h"
#include "cellfeed/collection/filter.h"
#include "cellfeed/collection/paths.h"
#include "cellfeed/convert/inputs/matrix_sources.h"
#include "cellfeed/convert/transpose/transposed_store.h"
#include "cellfeed/exec/thread_pool.h"
#include "cellfeed/format/shard/manifest.h"
#include "cellfeed/format/shard/shard_store.h"

namespace cellfeed::convert {
namespace {

using collection::Collection;
using CellsPtr = std::shared_ptr<const Collection>;

CellsPtr open_matrix(const std::vector<std::string>& paths, const InputOptions& options,
                     const std::string& layer) {
  collection::CollectionOptions how;
  how.open.layer = layer;
  how.open.choice = options.choice;
  how.open.reads_in_order = true;
  how.open.row_maker = options.row_maker ? options.row_maker : late_rows();
  if (!format::is_obsm(layer)) {
    how.join = collection::join_from_name(options.join, !options.genes.empty());
    how.genes = options.genes;
    how.var_keys = options.var_keys;
    how.make_unique = options.make_unique;
  }
  return Collection::open(paths, how);
}

CellsPtr open_all(const std::vector<std::string>& paths, const InputOptions& options) {
  if (paths.empty()) throw_invalid("there is nothing to read: no input was given");
  if (options.layer == format::kNoLayer)
    throw_invalid(
        "layer 'none' is obs alone, and what is written needs a matrix: name one "
        "(`cellfeed info FILE` lists them)");
  const auto names = matrix_names(options.layers, options.obsm);
  CellsPtr cells = open_matrix(paths, options, options.layer);
  std::vector<collection::NamedMatrix> further;
  for (const std::string& name : names) {
    if (name == format::layer_path(options.layer))
      throw_invalid("'{}' cannot be one of layers: it is the matrix that {} names", name,
                    argument("layer"));
    further.push_back({name, open_matrix(paths, options, name)});
  }
  return further.empty() ? cells : cells->with_matrices(std::move(further));
}

}  // namespace

std::vector<std::string> InputCells::all_paths() const {
  if (!paths.empty()) return paths;
  std::vector<std::string> found;
  for (std::int64_t s = 0; s < cells->n_stores(); ++s) {
    const std::string& path = cells->store(s).info().path;
    if (found.empty() || found.back() != path) found.push_back(path);
  }
  return found;
}

std::string selection_json(const Collection& cells, const std::vector<std::string>& steps) {
  if (steps.empty() && !cells.has_selected_rows()) return "{}";
  const nlohmann::json json = {{"cells_of", cells.n_stored_rows()}, {"steps", steps}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

OpenedInputs open_inputs(const InputOptions& options) {
  collection::join_from_name(options.join, !options.genes.empty());  // before anything is opened
  std::vector<std::string> paths = collection::expand_paths(options.paths);
  OpenedInputs opened;
  opened.input = {.cells = open_all(paths, options), .make_unique = options.make_unique};
  opened.input.paths = std::move(paths);
  if (options.filter.empty()) return opened;
  const CellsPtr all = opened.input.cells;
  const collection::Filter where(all, options.filter);
  exec::ThreadPool pool(exec::checked_thread_count(0));
  const auto rows =
      where.rows([&](std::int64_t n, const auto& task) { pool.parallel_for(n, task); });
  if (rows.empty()) throw_invalid("the filter leaves none of the {} cells", all->n_rows());
  opened.input.cells = all->with_rows(rows);
  opened.input.selection_json = selection_json(*opened.input.cells, {"filter: " + options.filter});
  opened.warnings = where.warnings();
  return opened;
}

format::RowMaker late_rows() {
  return [](std::unique_ptr<format::EntryStore> entries, const format::OpenOptions&) {
    std::vector<std::unique_ptr<format::RowStore>> stores;
    stores.push_back(std::make_unique<TransposedStore>(std::move(entries)));
    return stores;
  };
}

std::vector<std::string> matrices_of_shards(const std::vector<std::string>& paths) {
  std::vector<std::string> names;
  const std::vector<std::string> expanded = collection::expand_paths(paths);
  for (std::size_t i = 0; i < expanded.size(); ++i) {
    if (!format::shard::is_shard_dir(expanded[i])) return {};
    std::vector<std::string> held;
    for (const auto& matrix : format::shard::read_manifest(expanded[i]).matrices)
      held.push_back(matrix.name);
    if (i == 0) names = held;
    std::erase_if(names, [&](const auto& name) { return !std::ranges::count(held, name); });
  }
  return names;
}

}  // namespace cellfeed::convert
