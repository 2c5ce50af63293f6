#include "cellfeed/zarr/texts.h"

#include <algorithm>
#include <string>
#include <utility>

#include "cellfeed/base/utf8.h"
#include "cellfeed/io/codecs.h"

namespace cellfeed::zarr {
namespace {

using Visit = std::function<void(std::string_view)>;

constexpr std::size_t kLengthBytes = 4;

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// How many there are, then each behind its length.
bool visit_lengths(std::span<const std::byte> rest, std::int64_t first, std::int64_t n,
                   const Visit& visit) {
  if (rest.size() < kLengthBytes) return false;
  const auto n_texts = static_cast<std::int64_t>(io::read_little_endian(rest.first(kLengthBytes)));
  rest = rest.subspan(kLengthBytes);
  if (n_texts < first + n) return false;
  for (std::int64_t i = 0; i < first + n; ++i) {
    if (rest.size() < kLengthBytes) return false;
    const auto length = io::read_little_endian(rest.first(kLengthBytes));
    rest = rest.subspan(kLengthBytes);
    if (length > rest.size()) return false;
    if (i >= first) visit(as_text(rest.first(static_cast<std::size_t>(length))));
    rest = rest.subspan(static_cast<std::size_t>(length));
  }
  return true;
}

// Zeros at the end are padding.
bool decode_utf32(std::span<const std::byte> element, bool is_big_endian, std::string& text) {
  constexpr std::size_t kPointBytes = 4;
  constexpr std::uint64_t kMaxPoint = 0x10ffff;
  text.clear();
  std::size_t n_zeros = 0;
  for (std::size_t at = 0; at < element.size(); at += kPointBytes) {
    const auto bytes = element.subspan(at, kPointBytes);
    const auto point = is_big_endian ? io::read_big_endian(bytes) : io::read_little_endian(bytes);
    if (point > kMaxPoint || (point >= 0xd800 && point < 0xe000)) return false;
    if (point == 0) {
      ++n_zeros;
      continue;
    }
    text.append(std::exchange(n_zeros, 0), '\0');
    append_utf8(text, static_cast<std::uint32_t>(point));
  }
  return true;
}

}  // namespace

bool visit_texts(const DataType& type, std::span<const std::byte> chunk, std::int64_t first,
                 std::int64_t n, const Visit& visit) {
  if (type.kind == TypeKind::kText) return visit_lengths(chunk, first, n, visit);
  const auto width = static_cast<std::size_t>(type.bytes);
  if (chunk.size() < static_cast<std::size_t>(first + n) * width) return false;
  std::string text;
  for (std::int64_t i = first; i < first + n; ++i) {
    const auto element = chunk.subspan(static_cast<std::size_t>(i) * width, width);
    if (type.kind == TypeKind::kUtf32) {
      if (!decode_utf32(element, type.is_big_endian, text)) return false;
      visit(text);
      continue;
    }
    const std::string_view padded = as_text(element);
    visit(padded.substr(0, padded.find_last_not_of('\0') + 1));
  }
  return true;
}

}  // namespace cellfeed::zarr
