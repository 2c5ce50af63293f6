#include "open_collection.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "cellfeed/base/dtype.h"
#include "cellfeed/base/error.h"
#include "cellfeed/convert/cache/packed_store.h"
#include "cellfeed/convert/cache/row_cache.h"
#include "cellfeed/convert/inputs/input_cells.h"
#include "cellfeed/format/memory/memory_store.h"
#include "gil.h"
#include "table.h"
#include "waiting_calls.h"
#include "watched_work.h"

namespace nb = nanobind;

namespace cellfeed::bindings {

using collection::Collection;

namespace {

// Of rows that are cached. cache_dir: "" for the default; announce: f(text), before rows are
// written. Lifetime: both objects outlive it. Called without the GIL.
format::RowMaker row_maker(const std::string& cache_dir, const nb::object& announce,
                           const nb::object& progress) {
  return [&announce, &progress, cache = convert::RowCache({.dir = cache_dir})](
             std::unique_ptr<format::EntryStore> store, const format::OpenOptions& options) {
    if (!cache.has_rows(*store)) {
      const HeldGil held;
      call_python([&] { announce(cache.announcement(*store)); });
      run_watched(progress, [&](auto report, auto stop) {
        cache.make_rows(*store, report, stop, [&](const std::string& text) {
          const HeldGil for_text;
          call_python([&] { announce(text); });
        });
        return true;
      });
    }
    return cache.open_rows(std::move(store), options);
  };
}

}  // namespace

std::shared_ptr<const Collection> collection_from_memory(
    const Int64Array& indptr, const Int32Array& indices, const ValueArray& values,
    const std::string& dtype, std::int64_t n_genes, nb::handle obs, nb::handle var,
    std::string name, bool make_unique, std::optional<std::vector<std::string>> genes,
    std::vector<std::string> var_keys, const std::string& processing, bool has_log1p_mark,
    bool has_log1p_base) {
  if (indptr.size() == 0 || values.size() != indices.size())
    throw_invalid("the arrays do not make a CSR matrix: {} row starts, {} indices, {} values",
                  indptr.size(), indices.size(), values.size());
  format::memory::StoredCsr rows;
  rows.n_rows = static_cast<std::int64_t>(indptr.size()) - 1;
  rows.n_cols = n_genes;
  rows.dtype = dtype_from_name(dtype);
  if (values.itemsize() != dtype_bytes(rows.dtype))
    throw_invalid("the values are not {}: {} bytes each", dtype, values.itemsize());
  rows.indptr.reset(indptr.size());
  std::copy_n(indptr.data(), indptr.size(), rows.indptr.data());
  rows.indices.reset(indices.size());
  std::copy_n(indices.data(), indices.size(), rows.indices.data());
  rows.values.reset(values.size() * values.itemsize());
  std::copy_n(static_cast<const std::byte*>(values.data()), rows.values.size(), rows.values.data());
  collection::CollectionOptions options;
  options.make_unique = make_unique;
  options.var_keys = std::move(var_keys);
  if (genes) {
    options.join = collection::Join::kFixed;
    options.genes = std::move(*genes);
  }
  format::Processing done = format::read_processing(processing, name);
  if (has_log1p_mark) done = format::with_log1p_mark(done, has_log1p_base);
  std::vector<std::unique_ptr<format::RowStore>> stores;
  stores.push_back(format::memory::make_memory_store(
      std::move(rows), import_table(obs), import_table(var), std::move(name), std::move(done)));
  return std::make_shared<Collection>(std::move(stores), options);
}

std::shared_ptr<const Collection> join_collections(
    const std::vector<std::shared_ptr<const Collection>>& parts, const std::string& join,
    std::optional<std::vector<std::string>> genes, bool make_unique,
    std::vector<std::string> var_keys, std::int64_t cache_bytes) {
  collection::CollectionOptions options;
  options.make_unique = make_unique;
  options.var_keys = std::move(var_keys);
  options.open.cache_bytes = cache_bytes;
  options.join = collection::join_from_name(join, genes.has_value());
  if (genes) options.genes = std::move(*genes);
  std::vector<std::shared_ptr<const format::RowStore>> stores;
  for (const auto& part : parts)
    for (std::int64_t s = 0; s < part->n_stores(); ++s) stores.push_back(part->shared_store(s));
  const bool is_remote =
      std::ranges::any_of(parts, [](const auto& part) { return part->is_remote(); });
  return call_released(is_remote, [&]() -> std::shared_ptr<const Collection> {
    return std::make_shared<Collection>(std::move(stores), options);
  });
}

std::shared_ptr<const Collection> open_collection(
    std::vector<FilePath> paths, const std::string& join,
    std::optional<std::vector<std::string>> genes, bool make_unique,
    std::vector<std::string> layers, std::int64_t cache_bytes, const std::string& access,
    const std::string& verify, const std::optional<FilePath>& cache_dir, const nb::object& announce,
    const nb::object& progress, const std::string& genome, const std::string& feature_type,
    const std::string& modality, std::optional<bool> transpose, std::vector<std::string> var_keys,
    bool keeps_packed, const TableColumnNames& table, bool is_to_write) {
  collection::CollectionOptions options;
  options.open.reads_in_order = is_to_write;
  options.var_keys = std::move(var_keys);
  if (layers.size() == 1)
    options.open.layer = std::move(layers[0]);
  else
    options.open.layer_choices = std::move(layers);
  options.open.cache_bytes = cache_bytes;
  options.open.access = access;
  options.open.verify = verify;
  const auto& [genes_column, values_column, var, obs_columns] = table;
  options.open.choice = {genome,
                         feature_type,
                         modality,
                         transpose,
                         {genes_column, values_column, var.bytes, obs_columns}};
  options.make_unique = make_unique;
  options.join = collection::join_from_name(join, genes.has_value());
  if (genes) options.genes = std::move(*genes);
  if (is_to_write) options.open.row_maker = convert::late_rows();
  if (cache_dir) options.open.row_maker = row_maker(cache_dir->bytes, announce, progress);
  const std::vector<std::string> files = path_bytes(std::move(paths));
  return call_released(are_remote(files), [&] {
    if (keeps_packed && cache_dir) return convert::open_packed(files, options, cache_dir->bytes);
    return Collection::open(files, options);
  });
}

}  // namespace cellfeed::bindings
