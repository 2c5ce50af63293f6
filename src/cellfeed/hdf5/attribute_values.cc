// Values of attributes.
#include "cellfeed/hdf5/attribute_values.h"

#include "cellfeed/hdf5/variable_length.h"

namespace cellfeed::hdf5 {
namespace {

std::int64_t integer_of(std::span<const std::byte> element, const Datatype& type) {
  std::uint64_t value = 0;
  const std::size_t n = element.size();
  for (std::size_t i = 0; i < n; ++i) {
    const std::byte byte = element[type.is_big_endian ? i : n - 1 - i];
    value = value << 8 | std::to_integer<std::uint64_t>(byte);
  }
  const int unused_bits = 64 - 8 * static_cast<int>(n);
  const auto shifted = static_cast<std::int64_t>(value << unused_bits);
  return type.is_signed ? shifted >> unused_bits : static_cast<std::int64_t>(value);
}

bool holds_integers(const Datatype& type) {
  if (type.type_class == TypeClass::kEnumerated) return type.size == 1;
  return type.type_class == TypeClass::kFixedPoint && type.is_standard;
}

}  // namespace

std::optional<std::vector<std::string>> attribute_texts(const FileBytes& file,
                                                        const Attribute& attribute) {
  if (attribute.space.n_elements == 0) return std::vector<std::string>{};
  if (!holds_texts(attribute.type)) return std::nullopt;
  Texts texts;
  append_texts(file, attribute.type, attribute.value.view(), texts);
  std::vector<std::string> copies;
  for (std::int64_t i = 0; i < texts.size(); ++i) copies.emplace_back(texts[i]);
  return copies;
}

std::optional<std::vector<std::int64_t>> attribute_integers(const Attribute& attribute) {
  if (!holds_integers(attribute.type)) return std::nullopt;
  const auto width = static_cast<std::size_t>(attribute.type.size);
  std::vector<std::int64_t> values;
  for (auto rest = attribute.value.view(); !rest.empty(); rest = rest.subspan(width))
    values.push_back(integer_of(rest.first(width), attribute.type));
  return values;
}

}  // namespace cellfeed::hdf5
