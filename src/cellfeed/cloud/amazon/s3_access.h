// S3Access: how a bucket of S3 (or of a store that speaks its language) is reached: its address,
// and what requests are signed with. Thread-safe.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "cellfeed/cloud/amazon/aws_credentials.h"
#include "cellfeed/cloud/amazon/aws_signature.h"
#include "cellfeed/cloud/http/http_loop.h"
#include "cellfeed/cloud/storage_options.h"

namespace cellfeed::cloud {

class S3Access {
 public:
  // Options are those given for the bucket, then the environment's and those of the profile. Throws
  // kInvalidArgument for options that contradict each other, kIo where the bucket's region is not
  // known and cannot be asked for.
  explicit S3Access(std::string bucket);

  // Of the object of this key; of the bucket itself where it is empty. query: sorted, each value
  // escaped.
  std::string url(std::string_view key, std::string_view query) const;
  // Null: requests are not signed. Throws kIo where no credentials are found.
  std::shared_ptr<const RequestSigner> signer(bool fresh) const;
  const std::string& region() const { return region_; }

 private:
  const std::string bucket_;
  AwsCredentials given_;  // by options; without keys: to be found
  AwsAccount account_;
  std::string region_;
  bool is_anonymous_ = false;
  std::string base_url_;

  mutable std::mutex mutex_;  // guards what follows
  mutable std::shared_ptr<const RequestSigner> signer_;
  mutable Clock::time_point made_{};
};

// Of this process, kept; made anew where its options or the environment say other things.
std::shared_ptr<const S3Access> s3_access(const std::string& bucket);

// Of the object, or of the bucket where the key is empty; query: as S3Access::url takes it.
HttpRequest s3_request(std::string method, const BucketPath& path, std::string_view query = {});

}  // namespace cellfeed::cloud
