// Signatures of requests to Azure Blob Storage by an account's key, as Microsoft's documentation of
// "Authorize with Shared Key" computes them. Pure.
#pragma once

#include <memory>
#include <string>

#include "cellfeed/cloud/http/http_loop.h"

namespace cellfeed::cloud {

// key: its bytes. REQUIRES of the requests: the path of the URL is escaped.
std::shared_ptr<const RequestSigner> make_azure_signer(std::string account, std::string key);

}  // namespace cellfeed::cloud
