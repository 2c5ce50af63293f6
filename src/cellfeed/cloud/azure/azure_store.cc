#include "cellfeed/cloud/azure/azure_store.h"

#include <fmt/format.h>

#include <random>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/cloud/azure/azure_access.h"
#include "cellfeed/cloud/bucket.h"
#include "cellfeed/cloud/digest.h"
#include "cellfeed/cloud/part_upload.h"
#include "cellfeed/cloud/percent.h"

namespace cellfeed::cloud {
namespace {

HttpRequest azure_request(std::string method, const BucketPath& path, std::string_view query = {}) {
  HttpRequest request;
  request.method = std::move(method);
  request.url = azure_access(path.bucket)->container_url();
  if (!path.key.empty()) request.url += fmt::format("/{}", percent_encoded(path.key, "/"));
  if (!query.empty()) request.url += fmt::format("?{}", query);
  return request;
}

// Names of the blocks of one upload. What several upload to one blob meets in one heap of blocks,
// so that names must be of nobody else; all of a blob's have the same length.
class BlockNames {
 public:
  BlockNames() {
    std::random_device random;
    upload_ = fmt::format("{:08x}{:08x}{:08x}", random(), random(), random());
  }
  std::string of(std::size_t part) const { return base64(fmt::format("{}{:012}", upload_, part)); }

 private:
  std::string upload_;
};

class AzureStore final : public ObjectStore {
 public:
  HttpRequest to_read(const BucketPath& path, const ObjectVersion* pinned) const override {
    HttpRequest request = azure_request("GET", path);
    add_pin(request, pinned);
    return request;
  }
  HttpRequest to_look(const BucketPath& path) const override { return azure_request("HEAD", path); }
  HttpRequest to_list(const BucketPath& bucket, const ListQuery& query) const override {
    std::string text = fmt::format("restype=container&comp=list&maxresults={}&prefix={}",
                                   query.max_keys, percent_encoded(query.prefix));
    if (query.into_folders) text += "&delimiter=%2F";
    if (!query.token.empty()) text += fmt::format("&marker={}", percent_encoded(query.token));
    return azure_request("GET", {bucket.scheme, bucket.bucket, ""}, text);
  }
  HttpRequest to_write(const BucketPath& path, const StagedFile::Content& content,
                       const Precondition& condition) const override {
    HttpRequest request = azure_request("PUT", path);
    request.body = text_of(content);
    request.headers.emplace_back("x-ms-blob-type: BlockBlob");
    add_condition(request, condition);
    return request;
  }
  HttpRequest to_remove(const BucketPath& path) const override {
    return azure_request("DELETE", path);
  }
  void authorize(HttpRequest& request, const BucketPath& path, bool fresh) const override {
    azure_access(path.bucket)->authorize(request, fresh);
  }
  void look_at_settings(const BucketPath& path) const override { azure_access(path.bucket); }

  // A folder of an account with a hierarchy of names is answered for as if it were a blob.
  std::optional<ObjectVersion> version_of_look(const HttpAnswer& answer) const override {
    if (answer.header("x-ms-meta-hdi_isfolder") == "true") return std::nullopt;
    ObjectVersion version = version_of(answer).value_or(ObjectVersion{});
    // Of a block blob it goes with its bytes; of others it may be of bytes before.
    if (answer.header("x-ms-blob-type") == "BlockBlob")
      version.checksum = parse_checksum(ChecksumKind::kMd5, answer.header("content-md5"));
    return version;
  }
  ObjectListing parse_listing(std::string_view text, const std::string& path) const override {
    return parse_azure_listing(text, path);
  }
  bool is_no_bucket(const HttpAnswer& answer) const override {
    return answer.header("x-ms-error-code") == "ContainerNotFound";
  }

  // Blocks that no list names are dropped by the store a week after the last of them, or with the
  // next list, whoever put them there.
  bool write_in_parts(const BucketPath& path, const StagedFile::Content& content,
                      const Precondition& condition) const override {
    const BlockNames names;
    send_parts(content, [&](std::size_t part, std::string body) {
      HttpRequest request = azure_request(
          "PUT", path, fmt::format("comp=block&blockid={}", percent_encoded(names.of(part))));
      request.body = std::move(body);
      const HttpAnswer answer = ask_store(path, request);
      if (answer.status != 201) throw_refused(path, answer);
    });
    HttpRequest request = azure_request("PUT", path, "comp=blocklist");
    request.content_type = "application/xml";
    request.body = "<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>";
    for (std::size_t part = 0; part < part_sizes(content.size).n; ++part)
      request.body += fmt::format("<Uncommitted>{}</Uncommitted>", names.of(part));
    request.body += "</BlockList>";
    add_condition(request, condition);
    const HttpAnswer answer = ask_store(path, request);
    if (answer.status == 201) return true;
    // The list may have been taken before, when the answer to that was lost.
    if ((answer.status == 400 || is_unmet(answer)) && is_stored(path, content)) return true;
    if (condition.is_any() && is_unmet(answer)) return false;
    throw_refused(path, answer);
  }
};

}  // namespace

const ObjectStore& azure_store() {
  static const auto* store = new AzureStore;
  return *store;
}

}  // namespace cellfeed::cloud
