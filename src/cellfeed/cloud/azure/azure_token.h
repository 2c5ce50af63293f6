// Access tokens of Azure's identities.
#pragma once

#include <fmt/format.h>

#include <string>

#include "cellfeed/cloud/access_token.h"
#include "cellfeed/cloud/storage_options.h"

namespace cellfeed::cloud {

// Who requests are made for: an application with a secret or with a file of a token that a cluster
// of Kubernetes gives it; without either, the identity of this machine.
struct AzureIdentity {
  std::string client;
  std::string secret;
  std::string token_file;
  std::string server;  // of tokens; its whole address
  std::string name() const { return fmt::format("azure {} {} {}", server, client, token_file); }
};

// path: for errors. Of options, then of the environment. Throws kInvalidArgument where one lacks
// its tenant.
AzureIdentity find_azure_identity(const std::string& path, const StorageOptions& options);
// Throws kIo where no token is given.
AccessToken token_of_azure(const std::string& path, const AzureIdentity& identity);

}  // namespace cellfeed::cloud
