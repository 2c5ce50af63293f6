// Collections and their stores.
#include <arrow/api.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "arrays.h"
#include "bindings.h"
#include "cellfeed/base/error.h"
#include "cellfeed/collection/collection.h"
#include "cellfeed/collection/left_out.h"
#include "cellfeed/collection/packed_records.h"
#include "cellfeed/collection/paths.h"
#include "cellfeed/convert/cache/packed_store.h"
#include "cellfeed/convert/cache/packed_work.h"
#include "cellfeed/matrix/gene_names.h"
#include "cellfeed/matrix/obs.h"
#include "gil.h"
#include "open_collection.h"
#include "paths.h"
#include "table.h"
#include "waiting_calls.h"
#include "watched_work.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace cellfeed::bindings {
namespace {

using collection::Collection;
using collection::JoinedColumn;
using collection::PackedPart;
using collection::RowPlace;

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

const format::RowStore& checked_store(const Collection& self, std::int64_t s) {
  if (s < 0 || s >= self.n_stores())
    throw Error(ErrorKind::kOutOfRange,
                fmt::format("file must be in [0, {}): {}", self.n_stores(), s));
  return self.store(s);
}

std::vector<std::shared_ptr<PackedPart>> encoded(const Collection& self, std::int64_t begin,
                                                 std::int64_t end) {
  return call_released(self.is_remote(), [&] {
    std::vector<std::shared_ptr<PackedPart>> parts;
    for (PackedPart& part : collection::packed_records(self, begin, end))
      parts.push_back(std::make_shared<PackedPart>(std::move(part)));
    return parts;
  });
}

nb::dict store_info(const Collection& self, std::int64_t s) {
  const format::StoreInfo& info = checked_store(self, s).info();
  nb::dict out;
  out["path"] = as_path(info.path);
  out["format"] = info.format;
  out["layer"] = info.layer;
  out["n_cells"] = info.n_rows;
  out["n_genes"] = info.n_cols;
  out["nnz"] = info.nnz;
  out["dtype"] = std::string(dtype_name(info.value_dtype));
  out["is_dense"] = info.is_dense;
  out["compression"] = info.compression;
  out["rows_per_chunk"] = info.rows_per_chunk;
  out["bytes_on_disk"] = info.bytes_on_disk;
  return out;
}

// What was done to the values of one store, as it is recorded with them: a JSON object.
std::string store_processing(const Collection& self, std::int64_t s) {
  checked_store(self, s);
  return self.processing(s).json;
}

// Names of the cells of one store, in its order; O(cells) memory.
Table read_obs_names(const Collection& self, std::int64_t s) {
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

// A table of each of these stores; remote ones are read side by side.
template <typename Read>
std::vector<Table> read_of_stores(const Collection& self, const std::vector<std::int64_t>& stores,
                                  const Read& read) {
  return call_released(self.is_remote(), [&] {
    std::vector<Table> tables(stores.size());
    self.step_stores(std::ssize(stores), [&](std::int64_t i) {
      const auto at = static_cast<std::size_t>(i);
      tables[at] = read(self, stores[at]);
    });
    return tables;
  });
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
  module.def(
      "expand_paths",
      [](std::vector<FilePath> paths) {
        const std::vector<std::string> given = path_bytes(std::move(paths));
        std::vector<FilePath> expanded;
        for (auto& path :
             call_released(are_remote(given), [&] { return collection::expand_paths(given); }))
          expanded.push_back({std::move(path)});
        return expanded;
      },
      "paths"_a, "The files of paths and patterns, of which none may be there twice.");
  nb::class_<JoinedColumn>(module, "ObsColumn")
      .def_prop_ro("name", &JoinedColumn::name)
      .def_prop_ro("is_categorical", &JoinedColumn::is_categorical)
      .def_prop_ro("ordered", &JoinedColumn::ordered)
      .def_prop_ro("dtype",
                   [](const JoinedColumn& self) { return std::string(dtype_name(self.dtype())); })
      .def_prop_ro(
          "stored_dtype",
          [](const JoinedColumn& self) { return std::string(dtype_name(self.stored_dtype())); })
      .def_prop_ro("categories", &JoinedColumn::categories);
  nb::class_<PackedPart>(module, "PackedRecords")
      .def_ro("begin", &PackedPart::begin)
      .def_prop_ro("n_genes", [](const PackedPart& self) { return self.records.n_cols; })
      .def_prop_ro(
          "dtype",
          [](const PackedPart& self) { return std::string(dtype_name(self.records.value_dtype)); })
      .def_prop_ro("data",
                   [](const std::shared_ptr<PackedPart>& self) {
                     const auto& bytes = self->records.bytes;
                     return as_array(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                     {bytes.size()}, self);
                   })
      .def_prop_ro("offsets",
                   [](const PackedPart& self) { return vector_as_array(self.records.offsets); })
      .def_prop_ro("lengths",
                   [](const PackedPart& self) { return vector_as_array(self.records.lengths); })
      .def_prop_ro("nnz", [](const PackedPart& self) { return vector_as_array(self.records.nnz); });
  nb::class_<Collection>(module, "Collection")
      .def_static("open", &open_collection, "paths"_a, "join"_a, "genes"_a, "make_unique"_a,
                  "layers"_a, "cache_bytes"_a, "access"_a, "verify"_a, "cache_dir"_a.none(),
                  "announce"_a, "progress"_a.none(), "genome"_a, "feature_type"_a, "modality"_a,
                  "transpose"_a.none(), "var_keys"_a, "keeps_packed"_a, "table"_a, "is_to_write"_a)
      .def_static("joined", &join_collections, "parts"_a, "join"_a, "genes"_a.none(),
                  "make_unique"_a, "var_keys"_a, "cache_bytes"_a)
      .def_static("from_memory", &collection_from_memory, "indptr"_a, "indices"_a, "values"_a,
                  "dtype"_a, "n_genes"_a, "obs"_a, "var"_a, "name"_a, "make_unique"_a,
                  "genes"_a.none(), "var_keys"_a, "processing"_a = "{}", "has_log1p_mark"_a = false,
                  "has_log1p_base"_a = false)
      .def_prop_ro("n_rows", &Collection::n_rows)
      .def_prop_ro("n_stores", &Collection::n_stores)
      .def_prop_ro("n_genes", [](const Collection& self) { return self.genes().size(); })
      .def_prop_ro("gene_names", [](const Collection& self) { return self.genes().names; })
      .def_prop_ro("is_chunked", &Collection::is_chunked)
      .def("with_labels", &with_labels, "labels"_a)
      .def(
          "with_obs",
          [](const Collection& self, const nb::handle columns) {
            const auto table = import_table(columns);
            const ReleasedGil released;
            return std::const_pointer_cast<Collection>(self.with_obs(table));
          },
          "columns"_a)
      .def(
          "flush_packed",
          [](const Collection& self) {
            call_released(self.is_remote(), [&] { convert::flush_packed(self); });
          },
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
      .def(
          "unreadable",
          [](const Collection& self, bool is_var) {
            const collection::Unreadable found = call_released(self.is_remote(),
                                                               [&] {
                                                                 return collection::find_unreadable(
                  self.n_stores(),
                  [&](std::int64_t s) -> const format::RowStore& { return self.store(s); },
                  is_var ? [](const format::RowStore& store) { return store.read_var(); }
                         : collection::read_no_obs);
                                                               });
            return std::pair{found.columns, found.text};
          },
          "is_var"_a, "Columns of types that cannot be read, and what to say of them.")
      .def_prop_ro("stores_without_genes", &Collection::stores_without_genes)
      .def_prop_ro("missing_genes_text", &Collection::missing_genes_text)
      .def_prop_ro("obs_names",
                   [](const Collection& self) {
                     return call_released(self.is_remote(), [&] { return self.obs_names(); });
                   })
      .def_prop_ro("fingerprint",
                   [](const Collection& self) {
                     return call_released(self.is_remote(), [&] { return self.fingerprint(); });
                   })
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
      .def("encoded", &encoded, "begin"_a, "end"_a,
           "Packed records of cells [begin, end), a part for each file.")
      .def("store_info", &store_info, "store"_a)
      .def("store_processing", &store_processing, "store"_a)
      .def_prop_ro("processing",
                   [](const Collection& self) {
                     return call_released(self.is_remote(), [&] { return self.processing().json; });
                   })
      .def("with_mixed_processing",
           [](const Collection& self) {
             return std::const_pointer_cast<Collection>(self.with_mixed_processing());
           })
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
            if (self.has_joined_axis(s)) return std::nullopt;
            const auto map = self.gene_map(s);
            return vector_as_array(std::vector<std::int32_t>(map.begin(), map.end()));
          },
          "store"_a)
      .def(
          "obs_column",
          [](const Collection& self, const std::string& name) {
            return call_released(self.is_remote(), [&] {
              return std::const_pointer_cast<JoinedColumn>(self.obs_column(name));
            });
          },
          "name"_a)
      .def("gather_obs", &gather, "column"_a, "rows"_a)
      .def(
          "read_obs",
          [](const Collection& self, std::int64_t s, std::int64_t begin, std::int64_t end) {
            return call_released(self.is_remote(), [&] {
              return Table{checked_store(self, s).read_obs(begin, end)};
            });
          },
          "store"_a, "begin"_a, "end"_a)
      .def(
          "read_obs_names",
          [](const Collection& self, const std::vector<std::int64_t>& stores) {
            return read_of_stores(self, stores, read_obs_names);
          },
          "stores"_a)
      .def(
          "read_var",
          [](const Collection& self, const std::vector<std::int64_t>& stores) {
            return read_of_stores(self, stores, [](const Collection& cells, std::int64_t s) {
              return Table{checked_store(cells, s).read_var()};
            });
          },
          "stores"_a);
}

}  // namespace cellfeed::bindings
