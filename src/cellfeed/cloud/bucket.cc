#include "cellfeed/cloud/bucket.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/cloud/http/http_ask.h"
#include "cellfeed/cloud/http/recent_objects.h"
#include "cellfeed/exec/stop_scope.h"

namespace cellfeed::cloud {
namespace {

// What is longer is sent in parts.
constexpr std::int64_t kMaxWholeBytes = std::int64_t{32} << 20;
constexpr std::int64_t kComparedBytes = std::int64_t{8} << 20;

const ObjectStore& store_of(const BucketPath& path) { return object_store(path.scheme); }

// A HEAD has no body that would say why.
HttpAnswer ask_why(const BucketPath& path) {
  HttpRequest request = store_of(path).to_read(path, nullptr);
  request.headers.emplace_back("Range: bytes=0-0");
  return ask_store(path, request);
}

std::string read_part(const BucketPath& path, std::int64_t offset, std::int64_t length) {
  HttpRequest request = store_of(path).to_read(path, nullptr);
  request.headers.push_back(fmt::format("Range: bytes={}-{}", offset, offset + length - 1));
  HttpAnswer answer = ask_store(path, request);
  if (answer.status == 404)
    throw_error(ErrorKind::kNotFound, path.text(), "the object was removed as it was compared");
  if (answer.status != 206 || !answer.is_whole()) throw_refused(path, answer);
  return std::move(answer.body);
}

bool write_whole(const BucketPath& path, const StagedFile::Content& content,
                 const Precondition& condition) {
  const HttpAnswer answer = ask_store(path, store_of(path).to_write(path, content, condition));
  if (answer.status / 100 == 2) return true;
  if (store_of(path).is_no_bucket(answer)) throw_refused(path, answer);
  if (!condition.version.empty() && answer.status == 404) return false;
  if (!condition.is_any() || !is_unmet(answer)) throw_refused(path, answer);
  // What it met may be what it wrote itself, when the answer to that was lost and it was sent
  // again: by curl, too, which does not tell.
  return is_stored(path, content);
}

}  // namespace

HttpAnswer ask_store(const BucketPath& path, const HttpRequest& request) {
  for (const bool fresh : {false, true}) {
    HttpRequest authorized = request;
    store_of(path).authorize(authorized, path, fresh);
    HttpAnswer answer = ask_until_answered(authorized);
    if (fresh || !is_old_credentials(answer)) return answer;
  }
  throw Error(ErrorKind::kInternal, "an answer was expected");
}

void throw_refused(const BucketPath& path, const HttpAnswer& answer) {
  store_of(path).explain(path, answer);
  if (store_of(path).is_no_bucket(answer))
    throw_error(ErrorKind::kNotFound, path.text(), "there is no bucket of this name: {}",
                path.bucket);
  if (answer.status == 0)
    throw_error(ErrorKind::kIo, path.text(), "the store could not be reached: {}", answer.failure);
  if (answer.status / 100 == 2)
    throw_error(ErrorKind::kIo, path.text(), "the store did not answer in full: {}",
                answer.failure);
  throw_error(ErrorKind::kIo, path.text(), "the store refused: {}", describe_refusal(answer));
}

bool is_unmet(const HttpAnswer& answer) {
  return answer.status == 412 ||
         (answer.status == 409 && answer.header("x-ms-error-code") == "BlobAlreadyExists");
}

std::optional<ObjectVersion> look_at_object(const BucketPath& path) {
  const HttpRequest request = store_of(path).to_look(path);
  const HttpAnswer answer = ask_store(path, request);
  if (answer.status == 404) return std::nullopt;
  if (answer.status != 200 || !answer.is_whole())
    throw_refused(path,
                  answer.status / 100 == 4 && request.method == "HEAD" ? ask_why(path) : answer);
  auto version = store_of(path).version_of_look(answer);
  if (!version) return std::nullopt;
  if (version->etag.empty())
    throw_error(ErrorKind::kIo, path.text(), "the store says neither its size nor its version");
  version->seen_s = parse_http_time(answer.header("date"));
  recent_objects().keep(path.text(), *version);
  return version;
}

std::optional<ContentChecksum> find_checksum(const BucketPath& path, const ObjectVersion& version) {
  if (version.checksum) return version.checksum;
  const ObjectStore& store = store_of(path);
  const HttpAnswer answer = ask_store(path, store.to_look_for_checksum(path));
  if (answer.status != 200 || !version.is_of(answer)) return std::nullopt;
  return store.version_of_look(answer).value_or(ObjectVersion{}).checksum;
}

std::optional<ObjectVersion> recall_object(const BucketPath& path) {
  store_of(path).look_at_settings(path);
  if (auto known = recent_objects().find(path.text())) return known;
  return look_at_object(path);
}

ObjectListing list_objects(const BucketPath& bucket, const ListQuery& query) {
  const HttpAnswer answer = ask_store(bucket, store_of(bucket).to_list(bucket, query));
  BucketPath folder{bucket.scheme, bucket.bucket, query.prefix};
  if (folder.key.ends_with('/')) folder.key.pop_back();  // as it was given
  if (answer.status != 200 || !answer.is_whole()) throw_refused(folder, answer);
  ObjectListing listing = store_of(bucket).parse_listing(answer.body, folder.text());
  const std::int64_t seen_s = parse_http_time(answer.header("date"));
  for (ListedObject& object : listing.objects) {
    object.version.seen_s = seen_s;
    recent_objects().keep(BucketPath{bucket.scheme, bucket.bucket, object.key}.text(),
                          object.version);
  }
  return listing;
}

bool holds_objects(const BucketPath& folder) {
  if (recent_objects().is_folder(folder.text())) return true;
  // All that one answer holds: whoever asks for a folder opens its files next.
  ListQuery query{.prefix = folder.key.empty() ? "" : folder.key + "/"};
  ObjectListing found = list_objects(folder, query);
  while (found.objects.empty() && !found.next.empty()) {  // stores may give a part without any
    query.token = found.next;
    found = list_objects(folder, query);
  }
  if (!folder.key.empty() && found.objects.empty()) return false;
  recent_objects().keep_folder(folder.text());
  return true;
}

std::string read_object(const BucketPath& path) {
  HttpAnswer answer = ask_store(path, store_of(path).to_read(path, nullptr));
  if (answer.status == 404)
    throw_error(ErrorKind::kNotFound, path.text(), "there is no such object");
  if (answer.status != 200 || !answer.is_whole()) throw_refused(path, answer);
  return std::move(answer.body);
}

bool write_object(const BucketPath& path, const StagedFile::Content& content,
                  const Precondition& condition) {
  const exec::StopScope in_any_case({});
  recent_objects().forget(path.text());
  if (content.size <= kMaxWholeBytes) return write_whole(path, content, condition);
  if (!store_of(path).write_in_parts(path, content, condition)) return false;
  const auto written = look_at_object(path);
  if (!written || written->size != content.size)
    throw_error(ErrorKind::kIo, path.text(), "was not stored as it was sent: {} of {} bytes",
                written ? written->size : 0, content.size);
  return true;
}

bool is_stored(const BucketPath& path, const StagedFile::Content& content) {
  const auto version = look_at_object(path);
  if (!version || version->size != content.size) return false;
  std::string sent;
  for (std::int64_t at = 0; at < content.size; at += kComparedBytes) {
    const auto length = std::min(kComparedBytes, content.size - at);
    sent.resize(static_cast<std::size_t>(length));
    content.read(at, std::as_writable_bytes(std::span(sent)));
    if (read_part(path, at, length) != sent) return false;
  }
  return true;
}

void remove_object(const BucketPath& path) {
  const exec::StopScope in_any_case({});
  recent_objects().forget(path.text());
  for (std::string folder = path.text(); folder.rfind('/') > folder.find("://") + 2;) {
    folder.resize(folder.rfind('/'));
    recent_objects().forget(folder + "/");
  }
  const HttpAnswer answer = ask_store(path, store_of(path).to_remove(path));
  if (answer.status / 100 != 2 && answer.status != 404) throw_refused(path, answer);
}

}  // namespace cellfeed::cloud
