// AzureAccess: how a container of Azure Blob Storage is reached: its account, the account's
// address, and what authorizes requests. Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "cellfeed/cloud/http/http_loop.h"
#include "cellfeed/cloud/storage_options.h"

namespace cellfeed::cloud {

class AzureAccess {
 public:
  // bucket: a container, or "container@account.blob.core.windows.net". Options are those given for
  // it, then the environment's. Throws kInvalidArgument where they name no account or contradict
  // each other.
  explicit AzureAccess(const std::string& bucket);

  // Of the container; its blobs lie below.
  const std::string& container_url() const { return container_url_; }
  // Throws kIo where no token is given.
  void authorize(HttpRequest& request, bool fresh) const;

 private:
  struct Account;
  Account find_account(const std::string& bucket, const StorageOptions& given) const;
  Account account_in_path(const std::string& bucket) const;
  void use_key(const std::string& account, std::string_view key);
  void take_credentials(const Account& account, const StorageOptions& given);

  const std::string path_;
  std::string container_url_;
  // One of these, or none for a public container.
  std::shared_ptr<const RequestSigner> signer_;
  std::string shared_access_;  // "sv=...&sig=..."
  bool has_identity_ = false;
  StorageOptions identity_;
};

std::shared_ptr<const AzureAccess> azure_access(const std::string& bucket);

}  // namespace cellfeed::cloud
