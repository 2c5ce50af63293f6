// Columns of tables as numpy arrays, and the other way round: what pandas needs of Arrow.
#pragma once

#include <arrow/type_fwd.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "arrays.h"

namespace cellfeed::bindings {

// Thread-safe: immutable.
struct TableColumn {
  std::string name;
  std::shared_ptr<arrow::Array> array;
};

using AnyArray =
    nanobind::ndarray<nanobind::ro, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;
// True where a value is missing.
using Marks = std::optional<
    nanobind::ndarray<const bool, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>>;

// These copy their arguments. They throw kUnsupported with the column's name if Arrow has no type
// for the values. is_missing has one mark for each value.
//
// Takes booleans and numbers.
TableColumn column_of_numbers(std::string name, const AnyArray& values, const Marks& is_missing);
// days: since 1970.
TableColumn column_of_days(std::string name, const Int32Array& days, const Marks& is_missing);
// unit: "s", "ms", "us" or "ns", since 1970 unless the column holds durations. zone: the time zone,
// or "".
TableColumn column_of_times(std::string name, const Int64Array& counts, const Marks& is_missing,
                            const std::string& unit, bool is_duration, const std::string& zone);
// Texts hold str objects, except where is_missing is true.
TableColumn column_of_texts(std::string name, const nanobind::list& texts, const Marks& is_missing);
// codes: from 0, also where is_missing is true.
TableColumn column_of_codes(std::string name, const AnyArray& codes, const Marks& is_missing,
                            const TableColumn& categories, bool ordered);
TableColumn column_of_nulls(std::string name, std::int64_t n);

// These throw kUnsupported with the column's name and type if numpy has no type for the values.
//
// A missing text is None; other missing values are undefined. Shares memory with the column, read
// only, if the layout allows it.
NumpyArray values_of(const TableColumn& column);
// None where no value is missing.
std::optional<NumpyArray> missing_of(const TableColumn& column);
// REQUIRES: the column is categorical. A missing value has the code -1.
NumpyArray codes_of(const TableColumn& column);
bool is_categorical(const TableColumn& column);
TableColumn categories_of(const TableColumn& column);
bool is_ordered(const TableColumn& column);

}  // namespace cellfeed::bindings
