#include "cellfeed/cloud/object_store.h"

#include <span>

#include "cellfeed/base/error.h"
#include "cellfeed/cloud/amazon/s3_store.h"
#include "cellfeed/cloud/azure/azure_store.h"
#include "cellfeed/cloud/google/google_store.h"

namespace cellfeed::cloud {

std::string text_of(const StagedFile::Content& content) {
  std::string text(static_cast<std::size_t>(content.size), '\0');
  content.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

void add_pin(HttpRequest& request, const ObjectVersion* pinned) {
  if (pinned != nullptr) request.headers.push_back("If-Match: " + pinned->etag);
}

void add_condition(HttpRequest& request, const Precondition& condition) {
  if (condition.is_absent) request.headers.emplace_back("If-None-Match: *");
  if (!condition.version.empty()) request.headers.push_back("If-Match: " + condition.version);
}

const ObjectStore& object_store(std::string_view scheme) {
  if (scheme == "s3") return s3_store();
  if (scheme == "gs") return google_store();
  if (scheme == "az") return azure_store();
  throw_error(ErrorKind::kInternal, std::string(scheme), "no store of objects has this scheme");
}

}  // namespace cellfeed::cloud
