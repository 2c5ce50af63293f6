// Tables and their columns.
#include <arrow/api.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <vector>

#include "bindings.h"
#include "cellfeed/base/error.h"
#include "cellfeed/base/nearest_name.h"
#include "cellfeed/matrix/one_array.h"
#include "gil.h"
#include "table.h"
#include "table_column.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace cellfeed::bindings {
namespace {

// An object that is a data frame, as the stubs of the module then say.
class DataFrame : public nb::object {
  NB_OBJECT(DataFrame, nb::object, "pandas.DataFrame", is_any)

 private:
  static bool is_any(PyObject*) { return true; }
};

TableColumn column_at(const Table& self, int i) {
  const std::string& name = self.table->field(i)->name();
  const auto array = matrix::one_array(*self.table->column(i));
  if (!array.ok())
    throw Error(ErrorKind::kUnsupported, fmt::format("column '{}' is in pieces that do not fit: {}",
                                                     name, array.status().ToString()));
  return {name, *array};
}

TableColumn column_named(const Table& self, const std::string& name) {
  const std::vector<int> found = self.table->schema()->GetAllFieldIndices(name);
  if (found.empty())
    throw Error(ErrorKind::kNoSuchKey,
                fmt::format("no column '{}'{}", name,
                            suggestion(name, self.table->schema()->field_names())));
  return column_at(self, found[0]);
}

std::vector<TableColumn> columns_of(const Table& self) {
  std::vector<TableColumn> columns;
  for (int i = 0; i < self.table->num_columns(); ++i) columns.push_back(column_at(self, i));
  return columns;
}

Table table_of(const std::vector<TableColumn>& columns, std::int64_t n_rows) {
  arrow::FieldVector fields;
  arrow::ArrayVector arrays;
  for (const auto& [name, array] : columns) {
    if (array->length() != n_rows)
      throw_invalid("column '{}' has {} values, and the table {} rows", name, array->length(),
                    n_rows);
    fields.push_back(arrow::field(name, array->type()));
    arrays.push_back(array);
  }
  return {arrow::Table::Make(arrow::schema(std::move(fields)), std::move(arrays), n_rows)};
}

bool are_equal(const Table& self, const Table& other) {
  return self.table->Equals(*other.table, arrow::EqualOptions::Defaults().nans_equal(true));
}

DataFrame frame_of(nb::handle self) {
  const nb::object tables = nb::module_::import_("cellfeed._cells.tables");
  return nb::steal<DataFrame>(
      call_python([&]() -> nb::object { return tables.attr("frame_of")(self); }).release());
}

std::string table_text(const Table& self) {
  return fmt::format("Table of {} rows and {} columns:\n{}", self.table->num_rows(),
                     self.table->num_columns(), self.table->schema()->ToString());
}

void bind_column(nb::module_& module) {
  nb::class_<TableColumn>(module, "TableColumn", "A column of a table, as numpy has it.")
      .def_static("of_numbers", &column_of_numbers, "name"_a, "values"_a,
                  "is_missing"_a = nb::none())
      .def_static("of_days", &column_of_days, "name"_a, "days"_a, "is_missing"_a)
      .def_static("of_times", &column_of_times, "name"_a, "counts"_a, "is_missing"_a, "unit"_a,
                  "is_duration"_a, "zone"_a)
      .def_static("of_texts", &column_of_texts, "name"_a, "texts"_a, "is_missing"_a = nb::none())
      .def_static("of_codes", &column_of_codes, "name"_a, "codes"_a, "is_missing"_a, "categories"_a,
                  "ordered"_a)
      .def_static("of_nulls", &column_of_nulls, "name"_a, "n"_a)
      .def("__len__", [](const TableColumn& self) { return self.array->length(); })
      .def_ro("name", &TableColumn::name)
      .def_prop_ro(
          "type", [](const TableColumn& self) { return self.array->type()->ToString(); },
          "Arrow's name of it.")
      .def_prop_ro("values", &values_of, "Anything where a value is missing, but None for texts.")
      .def_prop_ro("is_missing", &missing_of, "None where no value is missing.")
      .def_prop_ro("is_categorical", &is_categorical)
      .def_prop_ro("codes", &codes_of, "-1 where missing.")
      .def_prop_ro("categories", &categories_of)
      .def_prop_ro("ordered", &is_ordered);
}

}  // namespace

void bind_table(nb::module_& module) {
  bind_column(module);
  nb::class_<Table>(module, "Table", R"(A table of cells or genes.

Any Arrow library takes it: ``pyarrow.table(t)``, ``polars.DataFrame(t)``, duckdb; ``to_pandas()``
needs none.

Parameters
----------
table
    A table of any Arrow library, with ``__arrow_c_stream__`` or ``__arrow_c_array__``.)")
      .def(
          "__init__", [](Table* self, nb::handle table) { new (self) Table{import_table(table)}; },
          "table"_a.none())
      .def_static("of", &table_of, "columns"_a, "n_rows"_a)
      .def("__arrow_c_stream__", &Table::export_stream, "requested_schema"_a = nb::none())
      .def("__len__", [](const Table& self) { return self.table->num_rows(); })
      .def("__getitem__", &column_named, "name"_a)
      .def("__repr__", &table_text)
      .def_prop_ro("num_rows", [](const Table& self) { return self.table->num_rows(); })
      .def_prop_ro("column_names", [](const Table& self) { return self.table->ColumnNames(); })
      .def_prop_ro("columns", &columns_of)
      .def("equals", &are_equal, "other"_a,
           "Whether names, types and values are the same; NaN is NaN here.")
      .def("to_pandas", &frame_of,
           "A data frame: categorical columns stay so, and missing numbers are NaN.");
}

}  // namespace cellfeed::bindings
