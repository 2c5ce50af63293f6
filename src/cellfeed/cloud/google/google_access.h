// GoogleAccess: how a bucket of Google Cloud Storage is reached: its address, and the account that
// requests are made for. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "cellfeed/cloud/http/http_loop.h"

namespace cellfeed::cloud {

class GoogleAccess {
 public:
  // Options are those given for the bucket, then the environment's and those of gcloud. Throws
  // kInvalidArgument for options that contradict each other.
  explicit GoogleAccess(std::string bucket);

  // "https://storage.googleapis.com", or where an emulator is.
  const std::string& base_url() const { return base_url_; }
  // Throws kIo where no account is found, or none is accepted.
  void authorize(HttpRequest& request, bool fresh) const;

 private:
  const std::string path_;
  std::string base_url_;
  std::string key_file_;  // empty: the account of this machine
  bool is_anonymous_ = false;
};

std::shared_ptr<const GoogleAccess> google_access(const std::string& bucket);

}  // namespace cellfeed::cloud
