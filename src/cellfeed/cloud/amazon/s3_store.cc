#include "cellfeed/cloud/amazon/s3_store.h"

#include <fmt/format.h>

#include <atomic>
#include <utility>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/cloud/amazon/s3_access.h"
#include "cellfeed/cloud/amazon/s3_uploads.h"
#include "cellfeed/cloud/bucket.h"
#include "cellfeed/cloud/part_upload.h"
#include "cellfeed/cloud/percent.h"
#include "cellfeed/cloud/xml_elements.h"

namespace cellfeed::cloud {
namespace {

// An upload in parts, which costs money until it is ended.
class PartUpload {
 public:
  explicit PartUpload(const BucketPath& path) : path_(path) {
    const HttpAnswer answer = ask_store(path_, s3_request("POST", path_, "uploads="));
    id_ = percent_encoded(unescaped(element(answer.body, "UploadId")));
    if (answer.status != 200 || !answer.is_whole() || id_.empty()) throw_refused(path_, answer);
  }

  void send(const StagedFile::Content& content) {
    tags_.resize(part_sizes(content.size).n);
    send_parts(content, [this](std::size_t part, std::string body) {
      HttpRequest request =
          s3_request("PUT", path_, fmt::format("partNumber={}&uploadId={}", part + 1, id_));
      request.body = std::move(body);
      const HttpAnswer answer = ask_store(path_, request);
      tags_[part] = answer.header("etag");
      if (is_gone(answer)) is_ended_ = true;
      if (answer.status != 200 || tags_[part].empty()) throw_refused(path_, answer);
    });
  }

  HttpAnswer end(const Precondition& condition) const {
    HttpRequest request = s3_request("POST", path_, "uploadId=" + id_);
    request.content_type = "application/xml";
    request.body = "<CompleteMultipartUpload>";
    for (std::size_t part = 0; part < tags_.size(); ++part)
      request.body += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>",
                                  part + 1, escaped(tags_[part]));
    request.body += "</CompleteMultipartUpload>";
    add_condition(request, condition);
    return ask_store(path_, request);
  }

  // Whether somebody else ended it: one who took this writer for dead, or a rule of the bucket.
  bool is_ended() const { return is_ended_; }
  static bool is_gone(const HttpAnswer& answer) {
    return answer.status == 404 && element(answer.body, "Code") == "NoSuchUpload";
  }

  void take_back() const {
    static_cast<void>(ask_store(path_, s3_request("DELETE", path_, "uploadId=" + id_)));
  }

 private:
  const BucketPath path_;
  std::string id_;
  std::vector<std::string> tags_;
  std::atomic<bool> is_ended_ = false;
};

// Of the whole object: one that was written in parts may have one of the checksums of those
// instead.
std::optional<ContentChecksum> checksum_of(const HttpAnswer& answer) {
  constexpr std::pair<const char*, ChecksumKind> kHeaders[] = {
      {"x-amz-checksum-crc64nvme", ChecksumKind::kCrc64Nvme},
      {"x-amz-checksum-crc32c", ChecksumKind::kCrc32c},
      {"x-amz-checksum-crc32", ChecksumKind::kCrc32}};
  if (answer.header("x-amz-checksum-type") == "COMPOSITE") return std::nullopt;
  for (const auto& [header, kind] : kHeaders)
    if (auto found = parse_checksum(kind, answer.header(header))) return found;
  return std::nullopt;
}

class S3Store final : public ObjectStore {
 public:
  HttpRequest to_read(const BucketPath& path, const ObjectVersion* pinned) const override {
    HttpRequest request = s3_request("GET", path);
    add_pin(request, pinned);
    return request;
  }
  HttpRequest to_look(const BucketPath& path) const override { return s3_request("HEAD", path); }
  // By a header that others than Amazon may know nothing of, and refuse.
  HttpRequest to_look_for_checksum(const BucketPath& path) const override {
    HttpRequest request = to_look(path);
    request.headers.emplace_back("x-amz-checksum-mode: ENABLED");
    return request;
  }
  HttpRequest to_list(const BucketPath& bucket, const ListQuery& query) const override {
    // Sorted by name, as what is signed is.
    std::string text;
    if (!query.token.empty())
      text += fmt::format("continuation-token={}&", percent_encoded(query.token));
    if (query.into_folders) text += "delimiter=%2F&";
    text += fmt::format("encoding-type=url&list-type=2&max-keys={}&prefix={}", query.max_keys,
                        percent_encoded(query.prefix));
    return s3_request("GET", {bucket.scheme, bucket.bucket, ""}, text);
  }
  HttpRequest to_write(const BucketPath& path, const StagedFile::Content& content,
                       const Precondition& condition) const override {
    HttpRequest request = s3_request("PUT", path);
    request.body = text_of(content);
    add_condition(request, condition);
    return request;
  }
  HttpRequest to_remove(const BucketPath& path) const override {
    return s3_request("DELETE", path);
  }
  void authorize(HttpRequest& request, const BucketPath& path, bool fresh) const override {
    request.signer = s3_access(path.bucket)->signer(fresh);
  }
  void look_at_settings(const BucketPath& path) const override { s3_access(path.bucket); }

  std::optional<ObjectVersion> version_of_look(const HttpAnswer& answer) const override {
    ObjectVersion version = version_of(answer).value_or(ObjectVersion{});
    version.checksum = checksum_of(answer);
    return version;
  }
  ObjectListing parse_listing(std::string_view text, const std::string& path) const override {
    return parse_s3_listing(text, path);
  }
  bool is_no_bucket(const HttpAnswer& answer) const override {
    return element(answer.body, "Code") == "NoSuchBucket";
  }
  void explain(const BucketPath& path, const HttpAnswer& answer) const override {
    const auto region = answer.header("x-amz-bucket-region");
    if (region.empty() || region == s3_access(path.bucket)->region()) return;
    throw_error(ErrorKind::kIo, path.text(),
                "the bucket lies in another region: set AWS_REGION={}, or give "
                "storage_options={{\"region\": \"{}\"}}",
                region, region);
  }

  bool write_in_parts(const BucketPath& path, const StagedFile::Content& content,
                      const Precondition& condition) const override {
    PartUpload upload(path);
    HttpAnswer answer;
    try {
      upload.send(content);
      answer = upload.end(condition);
      // An error may come as 200, as the store begins to answer before it has put them together;
      // and it may have been ended before, when the answer to that was lost.
      const bool is_ended = answer.status == 200 && answer.is_whole() &&
                            answer.body.find("<CompleteMultipartUploadResult") != std::string::npos;
      if (is_ended || is_stored(path, content)) return true;
    } catch (...) {
      take_back(upload);
      if (!upload.is_ended()) throw;
      // Two may write the same object, as two workers a shard: the other has.
      if (is_stored(path, content)) return true;
      throw_ended(path);
    }
    take_back(upload);
    if (PartUpload::is_gone(answer)) throw_ended(path);
    if (condition.is_any() && is_unmet(answer)) return false;
    if (answer.status == 200 && answer.is_whole())
      throw_error(ErrorKind::kIo, path.text(), "the store refused: {}", describe_refusal(answer));
    throw_refused(path, answer);
  }
  io::UnfinishedUploads remove_unfinished_uploads(
      const BucketPath& folder,
      const std::function<bool(std::string_view)>& is_ours) const override {
    return remove_s3_uploads(folder, is_ours);
  }

 private:
  [[noreturn]] static void throw_ended(const BucketPath& path) {
    throw_error(ErrorKind::kIo, path.text(),
                "its upload was ended by another before it was whole: by a run that took over the "
                "folder, or by a rule of the bucket for uploads that take long");
  }
  static void take_back(const PartUpload& upload) {
    try {
      upload.take_back();
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): what failed before is told
    }
  }
};

}  // namespace

const ObjectStore& s3_store() {
  static const auto* store = new S3Store;
  return *store;
}

}  // namespace cellfeed::cloud
