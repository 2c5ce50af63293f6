// Collections and their stores.
#include <arrow/api.h>
#include <arrow/c/bridge.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "arrays.h"
#include "bindings.h"
#include "cellfeed/base/error.h"
#include "cellfeed/collection/collection.h"
#include "cellfeed/convert/cache/packed_store.h"
#include "cellfeed/convert/cache/packed_work.h"
#include "cellfeed/convert/cache/row_cache.h"
#include "cellfeed/format/memory/memory_store.h"
#include "cellfeed/matrix/gene_names.h"
#include "cellfeed/matrix/obs.h"
#include "gil.h"
#include "paths.h"
#include "watched_work.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace cellfeed::bindings {
namespace {

using collection::Collection;
using collection::JoinedColumn;
using collection::RowPlace;

// An object of the Arrow PyCapsule protocol, which pyarrow, pandas and polars read without a copy.
struct ArrowStream {
  std::shared_ptr<arrow::Table> table;
  nb::capsule export_stream(nb::handle) const {
    auto* stream = new ArrowArrayStream{};
    auto reader = std::make_shared<arrow::TableBatchReader>(table);
    const auto status = arrow::ExportRecordBatchReader(reader, stream);
    if (!status.ok()) {
      delete stream;
      throw Error(ErrorKind::kInternal, status.ToString());
    }
    return nb::capsule(stream, "arrow_array_stream", [](void* p) noexcept {
      auto* owned = static_cast<ArrowArrayStream*>(p);
      if (owned->release != nullptr) owned->release(owned);
      delete owned;
    });
  }
};

std::shared_ptr<arrow::Table> import_table(nb::handle arrow_object) {
  const nb::object capsule = arrow_object.attr("__arrow_c_stream__")();
  auto* stream =
      static_cast<ArrowArrayStream*>(PyCapsule_GetPointer(capsule.ptr(), "arrow_array_stream"));
  if (stream == nullptr) throw nb::python_error();
  const auto reader = arrow::ImportRecordBatchReader(stream);
  if (!reader.ok()) throw Error(ErrorKind::kInvalidArgument, reader.status().ToString());
  const auto table = (*reader)->ToTable();
  if (!table.ok()) throw Error(ErrorKind::kInvalidArgument, table.status().ToString());
  return *table;
}

using ValueArray = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Column -> its labels in the order of their codes, and the label that means missing.
using GivenLabels =
    std::map<std::string,
             std::pair<std::optional<matrix::Categories>, std::optional<matrix::Category>>>;

std::shared_ptr<const Collection> with_labels(const Collection& self, GivenLabels given) {
  std::map<std::string, collection::LabelMap> maps;
  for (auto& [name, labels] : given)
    maps.emplace(name, collection::LabelMap{std::move(labels.first), std::move(labels.second)});
  return self.with_labels(std::move(maps));
}

// A collection of one store that holds copies of the arrays: what is in memory, served as files
// are.
std::shared_ptr<const Collection> collection_from_memory(
    const Int64Array& indptr, const Int32Array& indices, const ValueArray& values,
    const std::string& dtype, std::int64_t n_genes, nb::handle obs, nb::handle var,
    std::string name, bool make_unique, std::optional<std::vector<std::string>> genes,
    std::vector<std::string> var_keys) {
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
  std::vector<std::unique_ptr<format::RowStore>> stores;
  stores.push_back(format::memory::make_memory_store(std::move(rows), import_table(obs),
                                                     import_table(var), std::move(name)));
  return std::make_shared<Collection>(std::move(stores), options);
}

// The stores of several collections as one, joined anew.
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
  return std::make_shared<Collection>(std::move(stores), options);
}

// Of rows that are cached. cache_dir: "" for the default; announce: f(text), before rows are
// written. Lifetime: both objects outlive it. Called without the GIL.
format::RowMaker row_maker(const std::string& cache_dir, const nb::object& announce,
                           const nb::object& progress) {
  return [&announce, &progress, cache = convert::RowCache({.dir = cache_dir})](
             std::unique_ptr<format::EntryStore> store, const format::OpenOptions& options) {
    if (!cache.has_rows(*store)) {
      const nb::gil_scoped_acquire held;
      announce(cache.announcement(*store));
      run_watched(progress, [&](auto report, auto stop) {
        cache.make_rows(*store, report, stop, [&](const std::string& text) {
          const nb::gil_scoped_acquire for_text;
          announce(text);
        });
        return true;
      });
    }
    return cache.open_rows(std::move(store), options);
  };
}

std::shared_ptr<const Collection> open_collection(
    std::vector<FilePath> paths, const std::string& join,
    std::optional<std::vector<std::string>> genes, bool make_unique, const std::string& layer,
    std::int64_t cache_bytes, const std::string& access, const std::string& verify,
    FilePath allow_external, const std::optional<FilePath>& cache_dir, const nb::object& announce,
    const nb::object& progress, const std::string& genome, const std::string& feature_type,
    std::vector<std::string> var_keys, bool keeps_packed) {
  collection::CollectionOptions options;
  options.var_keys = std::move(var_keys);
  options.open.layer = layer;
  options.open.cache_bytes = cache_bytes;
  options.open.access = access;
  options.open.verify = verify;
  options.open.allow_external = std::move(allow_external.bytes);
  options.open.genome = genome;
  options.open.feature_type = feature_type;
  options.make_unique = make_unique;
  options.join = collection::join_from_name(join, genes.has_value());
  if (genes) options.genes = std::move(*genes);
  if (cache_dir) options.open.row_maker = row_maker(cache_dir->bytes, announce, progress);
  const ReleasedGil released;
  if (keeps_packed && cache_dir)
    return convert::open_packed(path_bytes(std::move(paths)), options, cache_dir->bytes);
  return Collection::open(path_bytes(std::move(paths)), options);
}

const format::RowStore& checked_store(const Collection& self, std::int64_t s) {
  if (s < 0 || s >= self.n_stores())
    throw Error(ErrorKind::kOutOfRange,
                fmt::format("file must be in [0, {}): {}", self.n_stores(), s));
  return self.store(s);
}

nb::dict store_info(const Collection& self, std::int64_t s) {
  const format::StoreInfo& info = checked_store(self, s).info();
  nb::dict out;
  out["path"] = as_path(info.path);
  out["format"] = info.format;
  out["layer"] = info.layer;
  out["n_cells"] = info.n_rows;
  out["n_genes"] = info.n_cols;
  out["nonzeros"] = info.nnz;
  out["dtype"] = std::string(dtype_name(info.value_dtype));
  out["is_dense"] = info.is_dense;
  out["compression"] = info.compression;
  out["rows_per_chunk"] = info.rows_per_chunk;
  out["bytes_on_disk"] = info.bytes_on_disk;
  return out;
}

// Names of the cells of one store, in its order; O(cells) memory.
ArrowStream read_obs_names(const Collection& self, std::int64_t s) {
  const format::RowStore& store = checked_store(self, s);
  const matrix::FixedColumn column = store.obs_column("_index");
  if (!column.is_categorical)
    throw Error(ErrorKind::kUnsupported, "the cells are not named by text", store.info().path);
  const std::vector<std::string> texts = matrix::category_texts(column);
  arrow::LargeStringBuilder builder;
  arrow::Status status;
  dispatch_dtype(column.dtype, [&](auto zero) {
    const auto* codes = static_cast<const decltype(zero)*>(column.values);
    for (std::int64_t i = 0; i < column.length && status.ok(); ++i) {
      const auto code = static_cast<std::int64_t>(codes[i]);
      status =
          code < 0 ? builder.AppendNull() : builder.Append(texts[static_cast<std::size_t>(code)]);
    }
  });
  std::shared_ptr<arrow::Array> names;
  if (status.ok()) status = builder.Finish(&names);
  if (!status.ok()) throw Error(ErrorKind::kInternal, status.ToString());
  return {
      arrow::Table::Make(arrow::schema({arrow::field("_index", arrow::large_utf8())}), {names})};
}

std::vector<RowPlace> located(const Collection& self, const Int64Array& rows) {
  std::vector<RowPlace> places;
  places.reserve(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::int64_t row = rows.data()[i];
    if (row < 0 || row >= self.n_rows())
      throw Error(ErrorKind::kOutOfRange,
                  fmt::format("row {} is outside the collection of {} cells", row, self.n_rows()));
    places.push_back(self.locate(row));
  }
  return places;
}

NumpyArray gather(const Collection& self, const JoinedColumn& column, const Int64Array& rows) {
  auto bytes =
      std::make_shared<matrix::Buffer<std::byte>>(rows.size() * dtype_bytes(column.dtype()));
  {
    const ReleasedGil released;
    column.gather(located(self, rows), bytes->data());
  }
  return untyped_as_array(column.dtype(), bytes->data(), {rows.size()}, bytes);
}

}  // namespace

void bind_collection(nb::module_& module) {
  nb::module_::import_("atexit").attr("register")(nb::cpp_function([] {
    const ReleasedGil released;
    convert::end_packed_work();
  }));
  module.def(
      "explain_missing_genes",
      [](const std::vector<std::string>& missing, std::vector<std::string> names) {
        const matrix::GeneAxis axis{std::move(names)};
        const matrix::GeneAxis* axes[] = {&axis};
        return matrix::explain_missing_genes(missing, axes);
      },
      "missing"_a, "names"_a);
  nb::class_<ArrowStream>(module, "ArrowStream")
      .def("__arrow_c_stream__", &ArrowStream::export_stream, "requested_schema"_a = nb::none());
  nb::class_<JoinedColumn>(module, "ObsColumn")
      .def_prop_ro("name", &JoinedColumn::name)
      .def_prop_ro("is_categorical", &JoinedColumn::is_categorical)
      .def_prop_ro("ordered", &JoinedColumn::ordered)
      .def_prop_ro("dtype",
                   [](const JoinedColumn& self) { return std::string(dtype_name(self.dtype())); })
      .def_prop_ro("categories", &JoinedColumn::categories);
  nb::class_<Collection>(module, "Collection")
      .def_static("open", &open_collection, "paths"_a, "join"_a, "genes"_a, "make_unique"_a,
                  "layer"_a, "cache_bytes"_a, "access"_a, "verify"_a, "allow_external"_a,
                  "cache_dir"_a.none(), "announce"_a, "progress"_a.none(), "genome"_a,
                  "feature_type"_a, "var_keys"_a, "keeps_packed"_a)
      .def_static("joined", &join_collections, "parts"_a, "join"_a, "genes"_a.none(),
                  "make_unique"_a, "var_keys"_a, "cache_bytes"_a)
      .def_static("from_memory", &collection_from_memory, "indptr"_a, "indices"_a, "values"_a,
                  "dtype"_a, "n_genes"_a, "obs"_a, "var"_a, "name"_a, "make_unique"_a,
                  "genes"_a.none(), "var_keys"_a)
      .def_prop_ro("n_rows", &Collection::n_rows)
      .def_prop_ro("n_stores", &Collection::n_stores)
      .def_prop_ro("n_genes", [](const Collection& self) { return self.genes().size(); })
      .def_prop_ro("gene_names", [](const Collection& self) { return self.genes().names; })
      .def_prop_ro("is_chunked", &Collection::is_chunked)
      .def("with_labels", &with_labels, "labels"_a)
      .def("flush_packed", &convert::flush_packed, nb::call_guard<ReleasedGil>(),
           "Returns when rows that are kept packed are written.")
      .def(
          "packed_shards",
          [](const Collection& self) {
            std::vector<FilePath> dirs;
            for (auto& dir : run_watched(nb::none(), [&](auto, auto stop) {
                   return convert::packed_shards(self, stop);
                 }))
              dirs.push_back({std::move(dir)});
            return dirs;
          },
          "Of matrices whose rows are all kept: their shards, once these are written.")
      .def("take_packed_warnings", &convert::take_packed_warnings)
      .def_prop_ro("var_keys", &Collection::var_keys)
      .def_prop_ro("missing_genes", &Collection::missing_genes)
      .def_prop_ro("left_out_text", &Collection::left_out_text)
      .def_prop_ro("stores_without_genes", &Collection::stores_without_genes)
      .def_prop_ro("missing_genes_text", &Collection::missing_genes_text)
      .def_prop_ro("obs_names", &Collection::obs_names, nb::call_guard<ReleasedGil>())
      .def_prop_ro("fingerprint", &Collection::fingerprint, nb::call_guard<ReleasedGil>())
      .def(
          "with_rows",
          [](const Collection& self, const Int64Array& rows) {
            const ReleasedGil released;
            return std::const_pointer_cast<Collection>(self.with_rows({rows.data(), rows.size()}));
          },
          "rows"_a)
      .def(
          "with_genes",
          [](const Collection& self, const Int64Array& columns) {
            const ReleasedGil released;
            return std::const_pointer_cast<Collection>(
                self.with_genes({columns.data(), columns.size()}));
          },
          "columns"_a)
      .def(
          "matrix",
          [](const Collection& self, std::size_t number) {
            if (number >= self.n_matrices())
              throw Error(ErrorKind::kOutOfRange,
                          fmt::format("the collection has {} matrices, and no number {}",
                                      self.n_matrices(), number));
            return std::const_pointer_cast<Collection>(self.matrix(number).shared_from_this());
          },
          "number"_a, "Number 0 is this collection itself.")
      .def(
          "with_matrices",
          [](const Collection& self,
             std::vector<std::pair<std::string, std::shared_ptr<Collection>>> named) {
            std::vector<collection::NamedMatrix> matrices;
            for (auto& [name, cells] : named) matrices.push_back({std::move(name), cells});
            return std::const_pointer_cast<Collection>(self.with_matrices(std::move(matrices)));
          },
          "matrices"_a, "The same cells, with further matrices, which are read beside this one.")
      .def(
          "locate",
          [](const Collection& self, const Int64Array& rows) {
            std::vector<std::int64_t> stores;
            std::vector<std::int64_t> places;
            for (const RowPlace& place : located(self, rows)) {
              stores.push_back(place.store);
              places.push_back(place.row);
            }
            return std::pair{vector_as_array(std::move(stores)),
                             vector_as_array(std::move(places))};
          },
          "rows"_a, "The file of each row, and the row in it.")
      .def_prop_ro("offsets",
                   [](const Collection& self) {
                     return std::vector<std::int64_t>(self.offsets().begin(), self.offsets().end());
                   })
      .def("store_info", &store_info, "store"_a)
      .def(
          "store_genes",
          [](const Collection& self, std::int64_t s) {
            return checked_store(self, s).genes().names;
          },
          "store"_a)
      .def(
          "gene_map",
          [](const Collection& self, std::int64_t s) -> std::optional<NumpyArray> {
            checked_store(self, s);
            const auto map = self.gene_map(s);
            if (map.empty()) return std::nullopt;
            return vector_as_array(std::vector<std::int32_t>(map.begin(), map.end()));
          },
          "store"_a)
      .def(
          "obs_column",
          [](const Collection& self, const std::string& name) {
            const ReleasedGil released;
            return std::const_pointer_cast<JoinedColumn>(self.obs_column(name));
          },
          "name"_a)
      .def("gather_obs", &gather, "column"_a, "rows"_a)
      .def(
          "read_obs",
          [](const Collection& self, std::int64_t s, std::int64_t begin, std::int64_t end) {
            const ReleasedGil released;
            return ArrowStream{checked_store(self, s).read_obs(begin, end)};
          },
          "store"_a, "begin"_a, "end"_a)
      .def(
          "read_obs_names",
          [](const Collection& self, std::int64_t s) {
            const ReleasedGil released;
            return read_obs_names(self, s);
          },
          "store"_a)
      .def(
          "read_var",
          [](const Collection& self, std::int64_t s) {
            const ReleasedGil released;
            return ArrowStream{checked_store(self, s).read_var()};
          },
          "store"_a);
}

}  // namespace cellfeed::bindings
