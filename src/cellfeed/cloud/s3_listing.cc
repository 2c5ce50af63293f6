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

// A token is not escaped by percents, but as XML.
std::string unescaped(std::string_view text) {
  constexpr std::pair<std::string_view, char> kNames[] = {
      {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
  std::string plain;
  while (!text.empty()) {
    bool is_name = false;
    for (const auto& [name, letter] : kNames)
      if (!is_name && text.starts_with(name)) {
        plain += letter;
        text.remove_prefix(name.size());
        is_name = true;
      }
    if (is_name) continue;
    plain += text.front();
    text.remove_prefix(1);
  }
  return plain;
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

ListedObject parse_object(std::string_view part, const std::string& path) {
  ListedObject object{.key = percent_decoded(element_of(part, "Key", path)), .version = {}};
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
  S3Listing listing;
  std::string_view text;
  std::string_view part;
  for (std::string_view rest = xml; take_element(rest, "Contents", part);)
    listing.objects.push_back(parse_object(part, path));
  for (std::string_view rest = xml; take_element(rest, "CommonPrefixes", part);)
    if (take_element(part, "Prefix", text)) listing.folders.push_back(percent_decoded(text));
  std::string_view rest = xml;
  if (take_element(rest, "NextContinuationToken", text)) listing.next = unescaped(text);
  rest = xml;
  if (listing.next.empty() && take_element(rest, "IsTruncated", text) && text == "true")
    throw_error(ErrorKind::kIo, path, "the server gave part of a list and no way to go on");
  return listing;
}

}  // namespace cellfeed::cloud
