// What bindings of conversions share: options that all have, the cells to convert, results.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cellfeed/convert/append/append.h"
#include "cellfeed/convert/preprocess/preprocess.h"
#include "cellfeed/convert/shard_conversion.h"
#include "paths.h"
#include "watched_work.h"

namespace cellfeed::bindings {

// Runs `work` on options that every long operation has. memory_budget: 0 for the default.
template <typename Options, typename Work>
auto run_with(Options& options, int threads, std::int64_t memory_budget,
              const nanobind::object& progress, Work work) {
  options.threads = threads;
  if (memory_budget > 0) options.memory_budget = memory_budget;
  return run_watched(progress, [&](auto report, auto stop) {
    options.progress = std::move(report);
    options.stop = std::move(stop);
    return work(options);
  });
}

// What every result has.
template <typename Result>
nanobind::dict figures_of(const Result& r) {
  nanobind::dict out;
  out["n_cells"] = r.n_cells;
  out["n_genes"] = r.n_genes;
  out["nnz"] = r.nnz;
  out["bytes"] = r.bytes;
  out["seconds"] = r.seconds;
  out["cells_per_second"] = r.cells_per_second;
  return out;
}

// What InputCells holds: the collection, make_unique, the steps that chose its cells and paths.
using GivenCells = std::tuple<std::shared_ptr<const collection::Collection>, bool,
                              std::vector<std::string>, std::vector<FilePath>>;

inline convert::InputCells input_cells(GivenCells given) {
  auto& [cells, make_unique, steps, paths] = given;
  const std::string selection = convert::selection_json(*cells, steps);
  return {.cells = std::move(cells),
          .make_unique = make_unique,
          .selection_json = selection,
          .paths = path_bytes(std::move(paths))};
}

inline nanobind::dict dict_of(const convert::ConvertResult& r) {
  nanobind::dict out = figures_of(r);
  out["n_shards"] = r.n_shards;
  out["n_shards_resumed"] = r.n_shards_resumed;
  out["not_finite"] = r.not_finite;
  out["n_absent_genes"] = r.n_absent_genes;
  out["n_genes_left_out"] = r.n_genes_left_out;
  out["left_out_text"] = r.left_out_text;
  out["n_uploads_removed"] = r.n_uploads_removed;
  out["warnings"] = r.warnings;
  return out;
}

inline nanobind::dict dict_of(const convert::AppendResult& r) {
  nanobind::dict out = dict_of(r.shards);
  out["n_cells_added"] = r.n_cells_added;
  out["n_shards_added"] = r.n_shards_added;
  out["n_missing_genes"] = r.n_missing_genes;
  out["missing_genes_text"] = r.missing_genes_text;
  out["warnings"] = r.warnings;
  return out;
}

inline nanobind::dict dict_of(const convert::PreprocessResult& r) {
  nanobind::dict out = figures_of(r);
  out["n_cells_before"] = r.n_cells_before;
  out["n_genes_before"] = r.n_genes_before;
  out["n_shards"] = r.n_shards;
  out["processing"] = r.processing_json;
  out["left_out_text"] = r.left_out_text;
  out["n_uploads_removed"] = r.n_uploads_removed;
  out["warnings"] = r.warnings;
  return out;
}

}  // namespace cellfeed::bindings
