#include <ctime>
#include <string>
#include <string_view>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/cloud/object_listing.h"
#include "cellfeed/cloud/percent.h"
#include "cellfeed/cloud/xml_elements.h"

namespace cellfeed::cloud {
namespace {

// A server may give keys as they are, though asked to encode them.
std::string key_of(std::string_view text, bool is_encoded) {
  return is_encoded ? percent_decoded(unescaped(text)) : unescaped(text);
}

std::string_view element_of(std::string_view part, std::string_view name, const std::string& path,
                            std::string_view what = "objects") {
  std::string_view text;
  if (!take_element(part, name, text))
    throw_error(ErrorKind::kIo, path, "the server's list of {} has one without its {}", what, name);
  return text;
}

ListedObject parse_s3_object(std::string_view part, bool is_encoded, const std::string& path) {
  ListedObject object{.key = key_of(element_of(part, "Key", path), is_encoded), .version = {}};
  const std::string_view size = element_of(part, "Size", path);
  const auto n_bytes = parse_count(size);
  if (!n_bytes)
    throw_error(ErrorKind::kIo, path, "the server's list of objects has a size that is none: {}",
                size);
  object.version.size = *n_bytes;
  object.version.etag = unescaped(element_of(part, "ETag", path));
  object.version.modified_s = parse_iso_time(element_of(part, "LastModified", path));
  return object;
}

}  // namespace

std::int64_t parse_iso_time(std::string_view text) {
  std::tm time{};
  if (::strptime(std::string(text).c_str(), "%Y-%m-%dT%H:%M:%S", &time) == nullptr) return -1;
  return ::timegm(&time);
}

ObjectListing parse_s3_listing(std::string_view xml, const std::string& path) {
  require_list(xml, "ListBucketResult", "objects", path);
  ObjectListing listing;
  std::string_view text;
  std::string_view part;
  std::string_view head = xml;
  const bool is_encoded = take_element(head, "EncodingType", text) && text == "url";
  for (std::string_view rest = xml; take_element(rest, "Contents", part);)
    listing.objects.push_back(parse_s3_object(part, is_encoded, path));
  for (std::string_view rest = xml; take_element(rest, "CommonPrefixes", part);)
    if (take_element(part, "Prefix", text)) listing.folders.push_back(key_of(text, is_encoded));
  std::string_view rest = xml;
  if (take_element(rest, "NextContinuationToken", text)) listing.next = unescaped(text);
  rest = xml;
  if (listing.next.empty() && take_element(rest, "IsTruncated", text) && text == "true")
    throw_error(ErrorKind::kIo, path, "the server gave part of a list and no way to go on");
  return listing;
}

UploadListing parse_s3_uploads(std::string_view xml, const std::string& path) {
  require_list(xml, "ListMultipartUploadsResult", "uploads", path);
  UploadListing listing;
  const bool is_encoded = element(xml, "EncodingType") == "url";
  std::string_view part;
  for (std::string_view rest = xml; take_element(rest, "Upload", part);) {
    ListedUpload upload{.key = key_of(element_of(part, "Key", path, "uploads"), is_encoded),
                        .id = unescaped(element_of(part, "UploadId", path, "uploads"))};
    if (upload.id.empty())
      throw_error(ErrorKind::kIo, path,
                  "the server's list of uploads has one without its UploadId");
    listing.uploads.push_back(std::move(upload));
  }
  // Of a list that is whole some say where it would go on.
  if (element(xml, "IsTruncated") != "true") return listing;
  listing.next_key = key_of(element(xml, "NextKeyMarker"), is_encoded);
  listing.next_id = unescaped(element(xml, "NextUploadIdMarker"));
  if (listing.next_key.empty())
    throw_error(ErrorKind::kIo, path, "the server gave part of a list and no way to go on");
  return listing;
}

}  // namespace cellfeed::cloud
