// Signatures of requests to S3, version 4, as Amazon's documentation of "Authenticating Requests
// (AWS Signature Version 4)" computes them. Pure.
#pragma once

#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "cellfeed/cloud/http_loop.h"

namespace cellfeed::cloud {

// The headers that sign it at that time. REQUIRES: the signature is used; the path of the URL is
// escaped, and its query sorted and escaped.
std::vector<std::string> sign_request(const HttpRequest& request, std::time_t now);

}  // namespace cellfeed::cloud
