// Signatures of requests to S3 and STS, version 4, as Amazon's documentation of "Authenticating
// Requests (AWS Signature Version 4)" computes them. Pure.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cellfeed/cloud/http/http_loop.h"

namespace cellfeed::cloud {

struct AwsCredentials {
  std::string access_key;
  std::string secret_key;
  std::string session_token{};  // empty: none
  std::string region{};
  std::string service = "s3";
};

// The domain that the servers of a region are in.
std::string_view amazon_domain(std::string_view region);

// REQUIRES of its requests: the path of the URL is escaped, and its query sorted and escaped.
std::shared_ptr<const RequestSigner> make_aws_signer(AwsCredentials credentials);

}  // namespace cellfeed::cloud
