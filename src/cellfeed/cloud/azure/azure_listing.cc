#include <curl/curl.h>
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "cellfeed/base/error.h"
#include "cellfeed/cloud/object_listing.h"
#include "cellfeed/cloud/xml_elements.h"

namespace cellfeed::cloud {
namespace {

std::string name_of(std::string_view part, const std::string& path) {
  std::string_view text;
  if (!take_element(part, "Name", text))
    throw_error(ErrorKind::kIo, path,
                "the server's list of objects has one without a name that XML can hold");
  return unescaped(text);
}

ListedObject parse_azure_object(std::string_view part, const std::string& path) {
  ListedObject object{.key = name_of(part, path), .version = {}};
  const auto size = parse_count(element(part, "Content-Length"));
  const std::string_view tag = element(part, "Etag");
  if (!size || tag.empty())
    throw_error(ErrorKind::kIo, path, "the server's list of objects has '{}' without {}",
                object.key, size ? "its version" : "its size");
  object.version.size = *size;
  // Headers have it in quotes.
  object.version.etag = tag.starts_with('"') ? std::string(tag) : fmt::format("\"{}\"", tag);
  object.version.modified_s =
      curl_getdate(std::string(element(part, "Last-Modified")).c_str(), nullptr);
  return object;
}

}  // namespace

ObjectListing parse_azure_listing(std::string_view xml, const std::string& path) {
  require_list(xml, "EnumerationResults", "objects", path);
  ObjectListing listing;
  std::string_view part;
  for (std::string_view rest = xml; take_element(rest, "Blob", part);) {
    // Of an account with a hierarchy of names.
    if (element(part, "ResourceType") == "directory") continue;
    listing.objects.push_back(parse_azure_object(part, path));
  }
  for (std::string_view rest = xml; take_element(rest, "BlobPrefix", part);)
    listing.folders.push_back(name_of(part, path));
  listing.next = unescaped(element(xml, "NextMarker"));
  return listing;
}

}  // namespace cellfeed::cloud
