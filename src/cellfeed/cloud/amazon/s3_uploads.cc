#include "cellfeed/cloud/amazon/s3_uploads.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/cloud/amazon/s3_access.h"
#include "cellfeed/cloud/bucket.h"
#include "cellfeed/cloud/object_listing.h"
#include "cellfeed/cloud/percent.h"

namespace cellfeed::cloud {
namespace {

// A store may have no such call: it says 400, 405 or 501.
[[noreturn]] void throw_not_done(const BucketPath& path, const HttpAnswer& answer,
                                 std::string_view permission) {
  if (object_store(path.scheme).is_no_bucket(answer)) throw_refused(path, answer);
  const std::string said = answer.status / 100 == 2 ? answer.failure : describe_refusal(answer);
  throw_error(ErrorKind::kIo, path.text(), "{}{}", said,
              answer.status == 403 ? fmt::format(" (its permission is {})", permission) : "");
}

HttpRequest to_list(const BucketPath& folder, const std::string& prefix,
                    const UploadListing& before) {
  // Sorted by name, as what is signed is.
  std::string query = "delimiter=%2F&encoding-type=url";
  if (!before.next_key.empty())
    query += fmt::format("&key-marker={}", percent_encoded(before.next_key));
  query += fmt::format("&max-uploads=1000&prefix={}", percent_encoded(prefix));
  if (!before.next_id.empty())
    query += fmt::format("&upload-id-marker={}", percent_encoded(before.next_id));
  return s3_request("GET", {folder.scheme, folder.bucket, ""}, query + "&uploads=");
}

std::vector<ListedUpload> find_uploads(const BucketPath& folder,
                                       const std::function<bool(std::string_view)>& is_ours) {
  const std::string prefix = folder.key.empty() ? "" : folder.key + "/";
  std::vector<ListedUpload> found;
  UploadListing part;
  do {
    const HttpAnswer answer = ask_store(folder, to_list(folder, prefix, part));
    if (answer.status != 200 || !answer.is_whole())
      throw_not_done(folder, answer, "s3:ListBucketMultipartUploads");
    UploadListing next = parse_s3_uploads(answer.body, folder.text());
    for (ListedUpload& upload : next.uploads)
      if (upload.key.starts_with(prefix) &&
          is_ours(std::string_view(upload.key).substr(prefix.size())))
        found.push_back(std::move(upload));
    if (!next.next_key.empty() && next.next_key == part.next_key && next.next_id == part.next_id)
      throw_error(ErrorKind::kIo, folder.text(), "the store's list of uploads does not go on");
    part = std::move(next);
  } while (!part.next_key.empty());
  return found;
}

// False where it had ended meanwhile.
bool end_upload(const BucketPath& path, const std::string& id) {
  const HttpAnswer answer =
      ask_store(path, s3_request("DELETE", path, "uploadId=" + percent_encoded(id)));
  if (answer.status / 100 == 2) return true;
  if (answer.status != 404 || object_store(path.scheme).is_no_bucket(answer))
    throw_not_done(path, answer, "s3:AbortMultipartUpload");
  return false;
}

}  // namespace

io::UnfinishedUploads remove_s3_uploads(const BucketPath& folder,
                                        const std::function<bool(std::string_view)>& is_ours) {
  io::UnfinishedUploads result;
  try {
    for (const ListedUpload& upload : find_uploads(folder, is_ours))
      if (end_upload({folder.scheme, folder.bucket, upload.key}, upload.id)) ++result.n_removed;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kIo) throw;
    // What is to be written is not the worse for them.
    result.warning = fmt::format(
        "uploads that a killed writer left unfinished could not be looked for and removed, and the "
        "store may charge for their parts: {}; a rule of the bucket "
        "(AbortIncompleteMultipartUpload) "
        "removes them too",
        error.what());
  }
  return result;
}

}  // namespace cellfeed::cloud
