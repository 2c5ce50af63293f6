// ObjectStore: what one kind of store of objects does in a way of its own: how requests to it look,
// and what its answers mean. Thread-safe.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "cellfeed/cloud/http/http_object.h"
#include "cellfeed/cloud/object_listing.h"
#include "cellfeed/cloud/staged_file.h"
#include "cellfeed/cloud/storage_options.h"
#include "cellfeed/io/directory.h"

namespace cellfeed::cloud {

// What has to be so for an object to be written.
struct Precondition {
  bool is_absent = false;  // nothing is there
  std::string version{};   // what is there has this ObjectVersion::etag
  bool is_any() const { return is_absent || !version.empty(); }
};

struct ListQuery {
  std::string prefix{};       // keys begin so
  bool into_folders = false;  // what lies behind the next slash is one folder
  int max_keys = 1000;
  std::string token{};  // of the part before; empty: the first
};

class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  // Requests without what authorizes them. They throw kInvalidArgument and kIo where options or the
  // environment do not say how the bucket is reached.

  // pinned: of this version and no other; null: of any.
  virtual HttpRequest to_read(const BucketPath& path, const ObjectVersion* pinned) const = 0;
  virtual HttpRequest to_look(const BucketPath& path) const = 0;
  // The same, to be told the checksum too.
  virtual HttpRequest to_look_for_checksum(const BucketPath& path) const { return to_look(path); }
  virtual HttpRequest to_list(const BucketPath& bucket, const ListQuery& query) const = 0;
  virtual HttpRequest to_write(const BucketPath& path, const StagedFile::Content& content,
                               const Precondition& condition) const = 0;
  virtual HttpRequest to_remove(const BucketPath& path) const = 0;

  // fresh: with other credentials than before, where there are.
  virtual void authorize(HttpRequest& request, const BucketPath& path, bool fresh) const = 0;
  // Where credentials and options are of another place than those before, what was learned of the
  // bucket is forgotten.
  virtual void look_at_settings(const BucketPath& path) const = 0;

  // Of an answer of 200 to to_look. Empty: what is there is no object.
  virtual std::optional<ObjectVersion> version_of_look(const HttpAnswer& answer) const = 0;
  virtual ObjectListing parse_listing(std::string_view text, const std::string& path) const = 0;
  virtual bool is_no_bucket(const HttpAnswer& answer) const = 0;
  // Throws where it knows more of the reason than the answer says.
  virtual void explain(const BucketPath&, const HttpAnswer&) const {}

  // In parts, each asked for again by itself. False where the condition is not met. What was begun
  // and failed is taken back, as far as the store lets it.
  virtual bool write_in_parts(const BucketPath& path, const StagedFile::Content& content,
                              const Precondition& condition) const = 0;
  // As OpenDirectory's. Stores that keep nothing of them, or not for long and for nothing, have
  // nothing to do.
  virtual io::UnfinishedUploads remove_unfinished_uploads(
      const BucketPath& folder, const std::function<bool(std::string_view name)>& is_ours) const {
    static_cast<void>(folder);
    static_cast<void>(is_ours);
    return {};
  }
};

// All of it.
std::string text_of(const StagedFile::Content& content);
// The headers of HTTP for them, which S3 and Azure go by: as to_read has `pinned`, as to_write has
// `condition`.
void add_pin(HttpRequest& request, const ObjectVersion* pinned);
void add_condition(HttpRequest& request, const Precondition& condition);

// Of paths of this scheme, "s3", "gs" or "az".
const ObjectStore& object_store(std::string_view scheme);

}  // namespace cellfeed::cloud
