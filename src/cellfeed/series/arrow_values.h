// Arrow columns as numbers, times and texts. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cellfeed/series/timestamp.h"

namespace arrow {
class Array;
class DataType;
}  // namespace arrow

namespace cellfeed::series {

// Says that the value of this row is wrong; does not return.
using OnBadValue = std::function<void(std::int64_t row, const std::string& what)>;

// Integers, floats and decimals, and dictionaries of these.
bool is_numeric_type(const arrow::DataType& type);
// Texts and bytes, and dictionaries of these.
bool is_text_type(const arrow::DataType& type);
// Integers, also as decimals, and dictionaries of these.
bool is_integer_type(const arrow::DataType& type);
// Numbers, booleans (0, 1), texts that are numbers, and dictionaries of these; NaN for null.
void read_numbers(const arrow::Array& array, double* out, std::int64_t stride,
                  const OnBadValue& bad);
// Several columns at once, the c-th from out + c on, where all are of float32, or all of float64,
// without nulls: that is quicker. False, and out half done, where they are not, and where a value
// is infinite.
bool read_rows(std::span<const arrow::Array* const> arrays, double* out, std::int64_t stride);
// The same as float32, `n_bytes` from row to row; false too where that would change a value.
bool read_narrow_rows(std::span<const arrow::Array* const> arrays, std::byte* out,
                      std::size_t n_bytes);
// Timestamps, dates, integers and texts, and dictionaries of these; kNoTime for null. Empty where
// none has a time: such rows are of no kind.
std::optional<TimeKind> read_times(const arrow::Array& array, std::optional<std::int64_t> unit,
                                   std::span<std::int64_t> out, const OnBadValue& bad);
// Integers; kNoTime for null.
void read_integers(const arrow::Array& array, std::span<std::int64_t> out, const OnBadValue& bad);
// Texts, or integers written out, which `kept` then holds. Null data for null.
void read_texts(const arrow::Array& array, std::vector<std::string_view>& out,
                std::vector<std::string>& kept, const OnBadValue& bad);

}  // namespace cellfeed::series
