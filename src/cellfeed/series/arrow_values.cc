#include "cellfeed/series/arrow_values.h"

#include <arrow/api.h>
#include <arrow/util/decimal.h>
#include <arrow/util/float16.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "cellfeed/base/csv_text.h"
#include "cellfeed/series/record_kernels.h"

namespace cellfeed::series {
namespace {

using arrow::Type;

constexpr std::int64_t kDayNs = 86'400'000'000'000;

std::string type_text(const arrow::Array& array) {
  return fmt::format("is of type {}", array.type()->ToString());
}

// Calls fn(typed array) for the arrays of whole numbers; false for all others.
template <typename Fn>
bool with_integers(const arrow::Array& array, Fn&& fn) {
  switch (array.type_id()) {
    case Type::INT8:
      return fn(static_cast<const arrow::Int8Array&>(array)), true;
    case Type::UINT8:
      return fn(static_cast<const arrow::UInt8Array&>(array)), true;
    case Type::INT16:
      return fn(static_cast<const arrow::Int16Array&>(array)), true;
    case Type::UINT16:
      return fn(static_cast<const arrow::UInt16Array&>(array)), true;
    case Type::INT32:
      return fn(static_cast<const arrow::Int32Array&>(array)), true;
    case Type::UINT32:
      return fn(static_cast<const arrow::UInt32Array&>(array)), true;
    case Type::INT64:
      return fn(static_cast<const arrow::Int64Array&>(array)), true;
    case Type::UINT64:
      return fn(static_cast<const arrow::UInt64Array&>(array)), true;
    default:
      return false;
  }
}

// Bytes of one length for all, filled up by zeros or blanks.
class PaddedTexts {
 public:
  explicit PaddedTexts(const arrow::Array& array)
      : array_(static_cast<const arrow::FixedSizeBinaryArray&>(array)) {}
  std::int64_t length() const { return array_.length(); }
  bool IsValid(std::int64_t i) const { return array_.IsValid(i); }
  std::string_view GetView(std::int64_t i) const {
    const std::string_view text = array_.GetView(i);
    return text.substr(0, text.find_last_not_of(std::string_view("\0 ", 2)) + 1);
  }

 private:
  const arrow::FixedSizeBinaryArray& array_;
};

template <typename Fn>
bool with_texts(const arrow::Array& array, Fn&& fn) {
  switch (array.type_id()) {
    case Type::STRING:
    case Type::BINARY:
      return fn(static_cast<const arrow::BinaryArray&>(array)), true;
    case Type::LARGE_STRING:
    case Type::LARGE_BINARY:
      return fn(static_cast<const arrow::LargeBinaryArray&>(array)), true;
    case Type::STRING_VIEW:
    case Type::BINARY_VIEW:
      return fn(static_cast<const arrow::BinaryViewArray&>(array)), true;
    case Type::FIXED_SIZE_BINARY:
      return fn(PaddedTexts(array)), true;
    default:
      return false;
  }
}

template <typename Fn>
bool with_floats(const arrow::Array& array, Fn&& fn) {
  switch (array.type_id()) {
    case Type::FLOAT:
      return fn([&a = static_cast<const arrow::FloatArray&>(array)](std::int64_t i) {
               return static_cast<double>(a.Value(i));
             }),
             true;
    case Type::DOUBLE:
      return fn([&a = static_cast<const arrow::DoubleArray&>(array)](std::int64_t i) {
               return a.Value(i);
             }),
             true;
    case Type::HALF_FLOAT:
      return fn([&a = static_cast<const arrow::HalfFloatArray&>(array)](std::int64_t i) {
               return static_cast<double>(arrow::util::Float16::FromBits(a.Value(i)).ToFloat());
             }),
             true;
    case Type::BOOL:
      return fn([&a = static_cast<const arrow::BooleanArray&>(array)](std::int64_t i) {
               return a.Value(i) ? 1.0 : 0.0;
             }),
             true;
    // To the nearest double, by way of its digits: pow10 tables of Arrow's own round twice.
    case Type::DECIMAL32:
    case Type::DECIMAL64:
    case Type::DECIMAL128:
    case Type::DECIMAL256:
      return fn([&array](std::int64_t i) {
               const auto scalar = array.GetScalar(i);
               return parse_number((*scalar)->ToString()).value_or(NAN);
             }),
             true;
    default:
      return false;
  }
}

std::int64_t as_int64(auto value, std::int64_t row, const OnBadValue& bad) {
  if constexpr (sizeof(value) == 8 && std::is_unsigned_v<decltype(value)>)
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      bad(row, fmt::format("is out of range: {}", value));
  const auto out = static_cast<std::int64_t>(value);
  if (out == kNoTime) bad(row, fmt::format("is out of range: {}", value));
  return out;
}

std::int64_t dictionary_index(const arrow::DictionaryArray& array, std::int64_t i) {
  return array.GetValueIndex(i);
}

// Of each row the entry of the dictionary that it names, or kNoTime.
void spread_entries(const arrow::DictionaryArray& coded, std::span<const std::int64_t> entries,
                    std::span<std::int64_t> out) {
  for (std::int64_t i = 0; i < coded.length(); ++i)
    out[static_cast<std::size_t>(i)] =
        coded.IsValid(i) ? entries[static_cast<std::size_t>(dictionary_index(coded, i))] : kNoTime;
}

// That of the entries, of a dictionary.
const arrow::DataType& value_type(const arrow::DataType& type) {
  if (type.id() != Type::DICTIONARY) return type;
  return *static_cast<const arrow::DictionaryType&>(type).value_type();
}

// So many rows at a time that those of all columns stay in the nearest cache.
template <typename T>
bool interleave(std::span<const T* const> columns, std::int64_t n, double* out,
                std::int64_t stride) {
  constexpr std::int64_t kRows = 32;
  bool is_finite = true;
  for (std::int64_t first = 0; first < n; first += kRows) {
    const std::int64_t end = std::min(n, first + kRows);
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const T* const column = columns[c];
      double* to = out + first * stride + static_cast<std::int64_t>(c);
      for (std::int64_t i = first; i < end; ++i, to += stride) {
        *to = static_cast<double>(column[i]);
        is_finite &= !std::isinf(column[i]);
      }
    }
  }
  return is_finite;
}

// Whether all are of this type and have no nulls.
bool are_whole(std::span<const arrow::Array* const> arrays, Type::type type) {
  return std::ranges::all_of(arrays, [&](const arrow::Array* array) {
    return array->type_id() == type && array->null_count() == 0;
  });
}

template <typename ArrayOf, typename T>
std::vector<const T*> raw_values(std::span<const arrow::Array* const> arrays) {
  std::vector<const T*> columns;
  for (const arrow::Array* array : arrays)
    columns.push_back(static_cast<const ArrayOf*>(array)->raw_values());
  return columns;
}

}  // namespace

bool is_integer_type(const arrow::DataType& type) {
  const arrow::DataType& of = value_type(type);
  return arrow::is_integer(of.id()) ||
         (arrow::is_decimal(of.id()) && static_cast<const arrow::DecimalType&>(of).scale() == 0);
}

bool is_text_type(const arrow::DataType& type) {
  const Type::type id = value_type(type).id();
  return arrow::is_base_binary_like(id) || arrow::is_binary_view_like(id) ||
         id == Type::FIXED_SIZE_BINARY;
}

bool is_numeric_type(const arrow::DataType& type) {
  const Type::type id = value_type(type).id();
  return arrow::is_integer(id) || arrow::is_floating(id) || arrow::is_decimal(id);
}

void read_numbers(const arrow::Array& array, double* out, std::int64_t stride,
                  const OnBadValue& bad) {
  const std::int64_t n = array.length();
  const auto fill = [&](const auto& value_of) {
    bool is_finite = true;
    if (array.null_count() == 0) {
      for (std::int64_t i = 0; i < n; ++i) {
        const double value = value_of(i);
        out[i * stride] = value;
        is_finite &= !std::isinf(value);
      }
    } else {
      for (std::int64_t i = 0; i < n; ++i) {
        const double value = array.IsNull(i) ? NAN : value_of(i);
        out[i * stride] = value;
        is_finite &= !std::isinf(value);
      }
    }
    for (std::int64_t i = 0; i < n && !is_finite; ++i)
      if (std::isinf(out[i * stride])) bad(i, "is infinite");
  };
  if (array.type_id() == Type::DICTIONARY) {
    const auto& coded = static_cast<const arrow::DictionaryArray&>(array);
    std::vector<double> values(static_cast<std::size_t>(coded.dictionary()->length()));
    read_numbers(*coded.dictionary(), values.data(), 1,
                 [&](std::int64_t, const std::string& what) { bad(0, what); });
    return fill([&](std::int64_t i) {
      return values[static_cast<std::size_t>(dictionary_index(coded, i))];
    });
  }
  if (array.type_id() == Type::NA) return fill([](std::int64_t) { return NAN; });
  if (with_floats(array, fill)) return;
  if (with_integers(array, [&](const auto& a) {
        fill([&](std::int64_t i) { return static_cast<double>(a.Value(i)); });
      }))
    return;
  const bool is_text = with_texts(array, [&](const auto& a) {
    fill([&](std::int64_t i) {
      const std::string_view text = a.GetView(i);
      if (is_missing_text(text)) return static_cast<double>(NAN);
      const auto value = parse_number(text);
      if (!value)
        bad(i, fmt::format("{}, which is no number: {:?}", type_text(array), text.substr(0, 80)));
      return value.value_or(NAN);
    });
  });
  if (!is_text) bad(0, type_text(array) + ", which is no number");
}

bool read_rows(std::span<const arrow::Array* const> arrays, double* out, std::int64_t stride) {
  if (arrays.empty()) return true;
  const std::int64_t n = arrays[0]->length();
  if (are_whole(arrays, Type::FLOAT))
    return interleave<float>(raw_values<arrow::FloatArray, float>(arrays), n, out, stride);
  if (are_whole(arrays, Type::DOUBLE))
    return interleave<double>(raw_values<arrow::DoubleArray, double>(arrays), n, out, stride);
  return false;
}

bool read_narrow_rows(std::span<const arrow::Array* const> arrays, std::byte* out,
                      std::size_t n_bytes) {
  if (arrays.empty()) return true;
  const auto n = static_cast<std::size_t>(arrays[0]->length());
  if (are_whole(arrays, Type::FLOAT))
    return interleave_narrow(raw_values<arrow::FloatArray, float>(arrays), n, out, n_bytes);
  if (are_whole(arrays, Type::DOUBLE))
    return interleave_narrow(raw_values<arrow::DoubleArray, double>(arrays), n, out, n_bytes);
  return false;
}

std::optional<TimeKind> read_times(const arrow::Array& array, std::optional<std::int64_t> unit,
                                   std::span<std::int64_t> out, const OnBadValue& bad) {
  if (array.null_count() == array.length()) {
    std::ranges::fill(out, kNoTime);
    return std::nullopt;
  }
  const bool is_whole = array.null_count() == 0;
  const auto fill = [&](const auto& value_of) {
    for (std::int64_t i = 0; i < array.length(); ++i)
      out[static_cast<std::size_t>(i)] = is_whole || array.IsValid(i) ? value_of(i) : kNoTime;
  };
  const auto scaled = [&](std::int64_t value, std::int64_t ns, std::int64_t i) {
    const auto time = scaled_time(value, ns);
    if (!time) bad(i, fmt::format("is beyond what nanoseconds can hold: {}", value));
    return time.value_or(kNoTime);
  };
  if (array.type_id() == Type::DICTIONARY) {
    const auto& coded = static_cast<const arrow::DictionaryArray&>(array);
    std::vector<std::int64_t> values(static_cast<std::size_t>(coded.dictionary()->length()));
    const auto kind = read_times(*coded.dictionary(), unit, values,
                                 [&](auto, const auto& what) { bad(0, what); });
    spread_entries(coded, values, out);
    return kind;
  }
  if (with_integers(array, [&](const auto& a) {
        fill([&](std::int64_t i) {
          return scaled(as_int64(a.Value(i), i, bad), unit.value_or(1), i);
        });
      }))
    return unit ? TimeKind::kNaive : TimeKind::kInteger;
  if (unit)
    bad(0, type_text(array) +
               "; time_unit is of whole numbers: write times as such, or leave it out where they "
               "are dates");
  if (array.type_id() == Type::TIMESTAMP) {
    const auto& type = static_cast<const arrow::TimestampType&>(*array.type());
    const auto& a = static_cast<const arrow::TimestampArray&>(array);
    constexpr std::int64_t kUnits[] = {1'000'000'000, 1'000'000, 1'000, 1};
    fill([&](std::int64_t i) { return scaled(a.Value(i), kUnits[type.unit()], i); });
    return type.timezone().empty() ? TimeKind::kNaive : TimeKind::kZoned;
  }
  if (array.type_id() == Type::DATE32) {
    const auto& a = static_cast<const arrow::Date32Array&>(array);
    fill([&](std::int64_t i) { return scaled(a.Value(i), kDayNs, i); });
    return TimeKind::kNaive;
  }
  if (array.type_id() == Type::DATE64) {
    const auto& a = static_cast<const arrow::Date64Array&>(array);
    fill([&](std::int64_t i) { return scaled(a.Value(i), 1'000'000, i); });
    return TimeKind::kNaive;
  }
  std::optional<TimeKind> kind;
  const bool is_text = with_texts(array, [&](const auto& a) {
    fill([&](std::int64_t i) {
      const std::string_view text = a.GetView(i);
      if (is_missing_text(text)) return kNoTime;
      const auto parsed = parse_time(text);
      if (!parsed) bad(i, fmt::format("{}: '{}'", kNoSuchTime, text.substr(0, 80)));
      const TimeKind found = parsed->has_zone ? TimeKind::kZoned : TimeKind::kNaive;
      if (kind && *kind != found) bad(i, "names a zone, or none, unlike those before it");
      kind = found;
      return parsed->ns;
    });
  });
  if (!is_text) bad(0, type_text(array) + ", which is no time; floats are none either");
  return kind;
}

void read_integers(const arrow::Array& array, std::span<std::int64_t> out, const OnBadValue& bad) {
  if (array.type_id() == Type::DICTIONARY) {
    const auto& coded = static_cast<const arrow::DictionaryArray&>(array);
    std::vector<std::int64_t> values(static_cast<std::size_t>(coded.dictionary()->length()));
    read_integers(*coded.dictionary(), values, [&](auto, const auto& what) { bad(0, what); });
    return spread_entries(coded, values, out);
  }
  const bool is_integer = with_integers(array, [&](const auto& a) {
    for (std::int64_t i = 0; i < a.length(); ++i)
      out[static_cast<std::size_t>(i)] = a.IsNull(i) ? kNoTime : as_int64(a.Value(i), i, bad);
  });
  if (!is_integer) bad(0, type_text(array) + "; a whole number was expected");
}

void read_texts(const arrow::Array& array, std::vector<std::string_view>& out,
                std::vector<std::string>& kept, const OnBadValue& bad) {
  out.assign(static_cast<std::size_t>(array.length()), {});
  const bool is_whole = array.null_count() == 0;
  if (array.type_id() == Type::DICTIONARY) {
    const auto& coded = static_cast<const arrow::DictionaryArray&>(array);
    std::vector<std::string_view> values;
    read_texts(*coded.dictionary(), values, kept, bad);
    for (std::int64_t i = 0; i < array.length(); ++i)
      if (array.IsValid(i))
        out[static_cast<std::size_t>(i)] =
            values[static_cast<std::size_t>(dictionary_index(coded, i))];
    return;
  }
  if (with_texts(array, [&](const auto& a) {
        for (std::int64_t i = 0; i < a.length(); ++i)
          if (is_whole || a.IsValid(i)) out[static_cast<std::size_t>(i)] = a.GetView(i);
      }))
    return;
  kept.clear();
  kept.reserve(static_cast<std::size_t>(array.length()));
  const bool is_integer = with_integers(array, [&](const auto& a) {
    for (std::int64_t i = 0, last = -1; i < a.length(); ++i) {
      if (!is_whole && !a.IsValid(i)) continue;
      // Neighbours are mostly of one entity.
      const bool is_same = last >= 0 && a.Value(last) == a.Value(i);
      out[static_cast<std::size_t>(i)] = is_same ? std::string_view(kept.back())
                                                 : kept.emplace_back(fmt::format("{}", a.Value(i)));
      last = i;
    }
  });
  if (is_integer) return;
  if (!is_integer_type(*array.type()))
    bad(0, type_text(array) + "; a name or a whole number was expected");
  for (std::int64_t i = 0; i < array.length(); ++i)
    if (array.IsValid(i))
      out[static_cast<std::size_t>(i)] =
          kept.emplace_back((*array.GetScalar(i))->ToString());  // of decimals
}

}  // namespace cellfeed::series
