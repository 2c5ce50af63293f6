// S3Access: how a bucket of S3 (or of a store that speaks its language) is reached: its address,
// what requests are signed with, and Arrow's file system for it. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cellfeed/cloud/http_loop.h"

namespace arrow::fs {
class FileSystem;
struct S3Options;
}  // namespace arrow::fs

namespace cellfeed::cloud {

class S3Access {
 public:
  // Options are those given for the bucket, then the environment's and those of the profile. Throws
  // kInvalidArgument for options that contradict each other, kIo where the bucket's region is not
  // known and cannot be asked for.
  explicit S3Access(std::string bucket);
  ~S3Access();

  // A request for the object of this key; for the bucket itself where it is empty. query: sorted,
  // each value escaped. Throws kIo where no credentials are found.
  HttpRequest request(std::string_view key, std::string_view query = {}, bool fresh = false) const;
  // For writing what is too large for one request.
  std::shared_ptr<arrow::fs::FileSystem> arrow_files() const;
  const std::string& region() const { return region_; }

 private:
  Signature signature(bool fresh) const;
  std::string base_url() const;

  const std::string bucket_;
  std::unique_ptr<arrow::fs::S3Options> options_;
  std::string region_;
  bool is_anonymous_ = false;
  std::string base_url_;

  mutable std::mutex mutex_;  // guards what follows
  mutable Signature signature_;
  mutable Clock::time_point signed_{};
  mutable std::shared_ptr<arrow::fs::FileSystem> arrow_files_;
};

// Of this process, kept; made anew where its options or the environment say other things.
std::shared_ptr<const S3Access> s3_access(const std::string& bucket);

// With %XX for all but letters, digits, "-._~" and what keep holds.
std::string percent_encoded(std::string_view text, std::string_view keep = {});
std::string percent_decoded(std::string_view text);

}  // namespace cellfeed::cloud
