#include "cellfeed/cloud/s3_listing.h"

#include <charconv>
#include <cstdint>
#include <ctime>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/cloud/s3_access.h"

namespace cellfeed::cloud {
namespace {

// The text of the first <name>...</name>, which is taken off with what stands before it.
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

void append_utf8(std::string& text, std::uint32_t code) {
  const auto add = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) return add(code);
  const int n_more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  add((0xFF00u >> (n_more + 1) & 0xFFu) | code >> (6 * n_more));
  for (int i = n_more; i-- > 0;) add(0x80u | (code >> (6 * i) & 0x3Fu));
}

// What stands for `name` in "&name;". False where nothing is known of it.
bool append_entity(std::string& text, std::string_view name) {
  constexpr std::pair<std::string_view, char> kNames[] = {
      {"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
  for (const auto& [known, letter] : kNames)
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

// A server may give keys as they are, though asked to encode them.
std::string key_of(std::string_view text, bool is_encoded) {
  return is_encoded ? percent_decoded(unescaped(text)) : unescaped(text);
}

std::int64_t parse_time(std::string_view text) {
  std::tm time{};
  if (::strptime(std::string(text).c_str(), "%Y-%m-%dT%H:%M:%S", &time) == nullptr) return -1;
  return ::timegm(&time);
}

std::string_view element_of(std::string_view part, std::string_view name, const std::string& path) {
  std::string_view text;
  if (!take_element(part, name, text))
    throw_error(ErrorKind::kIo, path, "the server's list of objects has one without its {}", name);
  return text;
}

ListedObject parse_object(std::string_view part, bool is_encoded, const std::string& path) {
  ListedObject object{.key = key_of(element_of(part, "Key", path), is_encoded), .version = {}};
  const std::string_view size = element_of(part, "Size", path);
  const auto [end, error] =
      std::from_chars(size.data(), size.data() + size.size(), object.version.size);
  if (error != std::errc() || end != size.data() + size.size() || object.version.size < 0)
    throw_error(ErrorKind::kIo, path, "the server's list of objects has a size that is none: {}",
                size);
  object.version.etag = unescaped(element_of(part, "ETag", path));
  object.version.modified_s = parse_time(element_of(part, "LastModified", path));
  return object;
}

}  // namespace

S3Listing parse_s3_listing(std::string_view xml, const std::string& path) {
  if (xml.find("<ListBucketResult") == std::string_view::npos)
    throw_error(ErrorKind::kIo, path, "the server answered with no list of objects");
  if (xml.find("</ListBucketResult>") == std::string_view::npos)
    throw_error(ErrorKind::kIo, path, "the server's list of objects ends too early");
  S3Listing listing;
  std::string_view text;
  std::string_view part;
  std::string_view head = xml;
  const bool is_encoded = take_element(head, "EncodingType", text) && text == "url";
  for (std::string_view rest = xml; take_element(rest, "Contents", part);)
    listing.objects.push_back(parse_object(part, is_encoded, path));
  for (std::string_view rest = xml; take_element(rest, "CommonPrefixes", part);)
    if (take_element(part, "Prefix", text)) listing.folders.push_back(key_of(text, is_encoded));
  std::string_view rest = xml;
  if (take_element(rest, "NextContinuationToken", text)) listing.next = unescaped(text);
  rest = xml;
  if (listing.next.empty() && take_element(rest, "IsTruncated", text) && text == "true")
    throw_error(ErrorKind::kIo, path, "the server gave part of a list and no way to go on");
  return listing;
}

}  // namespace cellfeed::cloud
