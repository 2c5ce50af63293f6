#include "cellfeed/format/memory/table_content.h"

#include <arrow/api.h>
#include <xxhash.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cellfeed/base/mix.h"
#include "cellfeed/matrix/arrow_result.h"
#include "cellfeed/matrix/one_array.h"

namespace cellfeed::format::memory {
namespace {

// Values of so many bytes each.
std::uint64_t hash_of_bytes(const arrow::Array& array, std::int64_t width) {
  const std::uint8_t* begin = array.data()->buffers[1]->data() + array.offset() * width;
  std::vector<std::uint8_t> values(begin, begin + array.length() * width);
  for (std::int64_t i = 0; i < array.length(); ++i)
    if (array.IsNull(i)) std::fill_n(values.begin() + i * width, width, std::uint8_t{0});
  return XXH3_64bits(values.data(), values.size());
}

std::uint64_t hash_of(const arrow::Array& array, const std::string& column) {
  std::uint64_t hash = mix(std::uint64_t{0}, std::string_view(array.type()->ToString()));
  hash = mix(hash, static_cast<std::uint64_t>(array.length()));
  if (array.type_id() == arrow::Type::DICTIONARY) {
    const auto& coded = static_cast<const arrow::DictionaryArray&>(array);
    return mix(mix(hash, hash_of(*coded.indices(), column)), hash_of(*coded.dictionary(), column));
  }
  std::vector<std::uint8_t> is_missing(static_cast<std::size_t>(array.length()));
  for (std::int64_t i = 0; i < array.length(); ++i) is_missing[i] = array.IsNull(i);
  hash = mix(hash, XXH3_64bits(is_missing.data(), is_missing.size()));
  const int bits = array.type()->bit_width();
  if (array.length() > 0 && bits >= 8) return mix(hash, hash_of_bytes(array, bits / 8));
  for (std::int64_t i = 0; i < array.length(); ++i)
    if (!is_missing[i])
      hash = mix(hash, std::string_view(matrix::check_arrow(array.GetScalar(i),
                                                            "read column '" + column + "'",
                                                            ErrorKind::kUnsupported)
                                            ->ToString()));
  return hash;
}

}  // namespace

std::uint64_t table_content(const arrow::Table& table) {
  std::uint64_t hash = static_cast<std::uint64_t>(table.num_columns());
  for (int i = 0; i < table.num_columns(); ++i) {
    const std::string& name = table.field(i)->name();
    const auto array = matrix::check_arrow(matrix::one_array(*table.column(i)),
                                           "read column '" + name + "'", ErrorKind::kUnsupported);
    hash = mix(mix(hash, std::string_view(name)), hash_of(*array, name));
  }
  return hash;
}

}  // namespace cellfeed::format::memory
