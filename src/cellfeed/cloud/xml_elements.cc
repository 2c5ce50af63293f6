#include "cellfeed/cloud/xml_elements.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/base/utf8.h"

namespace cellfeed::cloud {
namespace {

constexpr std::pair<std::string_view, char> kNamed[] = {
    {"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};

// What stands for `name` in "&name;". False where nothing is known of it.
bool append_entity(std::string& text, std::string_view name) {
  for (const auto& [known, letter] : kNamed)
    if (name == known) {
      text += letter;
      return true;
    }
  if (!name.starts_with('#')) return false;
  const bool is_hex = name.starts_with("#x");
  name.remove_prefix(is_hex ? 2 : 1);
  std::uint32_t code = 0;
  const auto [end, error] =
      std::from_chars(name.data(), name.data() + name.size(), code, is_hex ? 16 : 10);
  if (error != std::errc() || end != name.data() + name.size() || code > 0x10FFFF) return false;
  append_utf8(text, code);
  return true;
}

}  // namespace

bool take_element(std::string_view& rest, std::string_view name, std::string_view& text) {
  const std::string open = fmt::format("<{}>", name);
  const std::string close = fmt::format("</{}>", name);
  const auto begin = rest.find(open);
  if (begin == std::string_view::npos) return false;
  const auto end = rest.find(close, begin);
  if (end == std::string_view::npos) return false;
  text = rest.substr(begin + open.size(), end - begin - open.size());
  rest.remove_prefix(end + close.size());
  return true;
}

std::string_view element(std::string_view xml, std::string_view name) {
  std::string_view text;
  return take_element(xml, name, text) ? text : std::string_view();
}

void require_list(std::string_view xml, std::string_view name, std::string_view what,
                  const std::string& path) {
  if (xml.find(fmt::format("<{}", name)) == std::string_view::npos)
    throw_error(ErrorKind::kIo, path, "the server answered with no list of {}", what);
  if (xml.find(fmt::format("</{}>", name)) == std::string_view::npos)
    throw_error(ErrorKind::kIo, path, "the server's list of {} ends too early", what);
}

std::string unescaped(std::string_view text) {
  std::string plain;
  while (!text.empty()) {
    const auto end = text.front() == '&' ? text.find(';') : std::string_view::npos;
    if (end != std::string_view::npos && append_entity(plain, text.substr(1, end - 1))) {
      text.remove_prefix(end + 1);
      continue;
    }
    plain += text.front();
    text.remove_prefix(1);
  }
  return plain;
}

std::string escaped(std::string_view text) {
  std::string made;
  for (const char letter : text) {
    std::string_view entity;
    for (const auto& [name, of] : kNamed)
      if (of == letter) entity = name;
    made += entity.empty() ? std::string(1, letter) : fmt::format("&{};", entity);
  }
  return made;
}

}  // namespace cellfeed::cloud
