#include "cellfeed/cloud/azure/azure_access.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/cloud/access_token.h"
#include "cellfeed/cloud/azure/azure_signature.h"
#include "cellfeed/cloud/azure/azure_token.h"
#include "cellfeed/cloud/digest.h"
#include "cellfeed/cloud/percent.h"
#include "cellfeed/cloud/settings.h"

namespace cellfeed::cloud {
namespace {

// The oldest with all that is asked for here.
constexpr const char* kVersion = "x-ms-version: 2021-12-02";
// Of its clouds: of all the world, of the United States' government and of China.
constexpr std::string_view kHosts[] = {"core.windows.net", "core.usgovcloudapi.net",
                                       "core.chinacloudapi.cn"};
constexpr const char* kAzureVariables[] = {"AZURE_STORAGE_CONNECTION_STRING",
                                           "AZURE_STORAGE_ACCOUNT_NAME",
                                           "AZURE_STORAGE_ACCOUNT",
                                           "AZURE_STORAGE_ACCOUNT_KEY",
                                           "AZURE_STORAGE_KEY",
                                           "AZURE_STORAGE_SAS_TOKEN",
                                           "AZURE_TENANT_ID",
                                           "AZURE_CLIENT_ID",
                                           "AZURE_CLIENT_SECRET",
                                           "AZURE_FEDERATED_TOKEN_FILE",
                                           "AZURE_AUTHORITY_HOST",
                                           "IDENTITY_ENDPOINT"};

using Parts = std::map<std::string, std::string, std::less<>>;

std::string_view part(const Parts& parts, std::string_view name) {
  const auto found = parts.find(name);
  return found == parts.end() ? std::string_view() : std::string_view(found->second);
}

// "AccountName=...;AccountKey=...;BlobEndpoint=..."
Parts parse_connection(const std::string& path, std::string_view text) {
  Parts parts;
  while (!text.empty()) {
    const std::string_view pair = text.substr(0, text.find(';'));
    text.remove_prefix(std::min(text.size(), pair.size() + 1));
    if (pair.empty()) continue;
    const auto equals = pair.find('=');
    if (equals == std::string_view::npos)
      throw_error(ErrorKind::kInvalidArgument, path,
                  "the connection string is not of the form Name=value;Name=value");
    parts[std::string(pair.substr(0, equals))] = pair.substr(equals + 1);
  }
  if (part(parts, "UseDevelopmentStorage") == "true")
    throw_error(ErrorKind::kUnsupported, path,
                "UseDevelopmentStorage names no account: give the emulator's whole connection "
                "string, with AccountName, AccountKey and BlobEndpoint");
  return parts;
}

std::string account_of_environment() {
  return std::string(
      first_of({environment("AZURE_STORAGE_ACCOUNT_NAME"), environment("AZURE_STORAGE_ACCOUNT")}));
}

}  // namespace

struct AzureAccess::Account {
  std::string name;
  std::string container;
  std::string url;
  Parts connection;  // of the options or, without any, of the environment; empty: none
  bool is_in_path = false;
};

AzureAccess::AzureAccess(const std::string& bucket) : path_("az://" + bucket) {
  const StorageOptions given = storage_options_of("az", bucket);
  const Account account = find_account(bucket, given);
  container_url_ = fmt::format("{}/{}", account.url, percent_encoded(account.container));
  take_credentials(account, given);
}

// "container@account.blob.core.windows.net". Requests carry what opens the account, so no other
// host may be named by a path.
AzureAccess::Account AzureAccess::account_in_path(const std::string& bucket) const {
  const auto at = bucket.find('@');
  std::string host = bucket.substr(at + 1);
  Account account{.name = host.substr(0, host.find('.')),
                  .container = bucket.substr(0, at),
                  .url = {},
                  .connection = {},
                  .is_in_path = true};
  // The same blobs, by the other of its two interfaces.
  if (const auto dfs = host.find(".dfs."); dfs != std::string::npos) host.replace(dfs, 5, ".blob.");
  const bool is_known = std::ranges::any_of(kHosts, [&](std::string_view known) {
    return host == fmt::format("{}.blob.{}", account.name, known);
  });
  if (account.container.empty() || account.name.empty() || !is_known)
    throw_error(ErrorKind::kInvalidArgument, path_,
                "names no container of an account of Azure: az://container@account.blob.{}/name is "
                "one; another address is given as endpoint_url of storage_options",
                kHosts[0]);
  account.url = "https://" + host;
  return account;
}

AzureAccess::Account AzureAccess::find_account(const std::string& bucket,
                                               const StorageOptions& given) const {
  Account account;
  const std::string_view of_environment = environment("AZURE_STORAGE_CONNECTION_STRING");
  if (bucket.find('@') != std::string::npos) {
    account = account_in_path(bucket);
    for (const char* name : {"account_name", "connection_string"})
      if (given.contains(name))
        throw_error(ErrorKind::kInvalidArgument, path_,
                    "the path names its account, and the storage option {} another", name);
    if (Parts parts = parse_connection(path_, of_environment);
        part(parts, "AccountName") == account.name)
      account.connection = std::move(parts);
  } else {
    account.container = bucket;
    account.connection = parse_connection(
        path_, given.contains("connection_string") ? option(given, "connection_string")
               : given.contains("account_name")    ? std::string_view()
                                                   : of_environment);
    account.name = first_of({option(given, "account_name"), part(account.connection, "AccountName"),
                             account_of_environment()});
  }
  const std::string_view endpoint =
      first_of({option(given, "endpoint_url"), part(account.connection, "BlobEndpoint")});
  if (account.name.empty())
    throw_error(ErrorKind::kInvalidArgument, path_,
                "no storage account is named: set AZURE_STORAGE_ACCOUNT_NAME, or give "
                "storage_options={{\"account_name\": ...}}");
  if (!std::ranges::all_of(account.name, [](unsigned char c) { return std::isalnum(c) != 0; }))
    throw_error(ErrorKind::kInvalidArgument, path_,
                "the name of a storage account has letters and digits");
  if (!endpoint.empty())
    account.url = parse_endpoint(path_, "endpoint_url", endpoint);
  else if (!account.is_in_path)
    account.url = fmt::format("https://{}.blob.{}", account.name,
                              first_of({part(account.connection, "EndpointSuffix"), kHosts[0]}));
  return account;
}

// Of one source: options, else the environment's connection string, else its other variables.
void AzureAccess::take_credentials(const Account& account, const StorageOptions& given) {
  const bool is_public = is_anonymous(given);
  const bool has_identity = given.contains("client_id") || given.contains("client_secret");
  std::string_view key = option(given, "account_key");
  std::string_view shared = option(given, "sas_token");
  const int n_kinds = (is_public ? 1 : 0) + (has_identity ? 1 : 0) + (key.empty() ? 0 : 1) +
                      (shared.empty() ? 0 : 1) + (given.contains("connection_string") ? 1 : 0);
  if (n_kinds > 1)
    throw_error(ErrorKind::kInvalidArgument, path_,
                "give one of the storage options account_key, sas_token, connection_string, "
                "client_id (with client_secret) and anon");
  if (is_public) return;
  if (key.empty() && shared.empty() && !has_identity) {
    key = part(account.connection, "AccountKey");
    shared = part(account.connection, "SharedAccessSignature");
  }
  const std::string of_environment = account_of_environment();
  if (n_kinds == 0 && key.empty() && shared.empty() &&
      (of_environment.empty() || of_environment == account.name)) {
    key = first_of({environment("AZURE_STORAGE_ACCOUNT_KEY"), environment("AZURE_STORAGE_KEY")});
    shared = environment("AZURE_STORAGE_SAS_TOKEN");
  }
  if (!key.empty()) return use_key(account.name, key);
  shared_access_ = shared.starts_with('?') ? shared.substr(1) : shared;
  has_identity_ = shared_access_.empty();
  if (has_identity_) identity_ = given;
}

void AzureAccess::use_key(const std::string& account, std::string_view key) {
  const auto bytes = from_base64(key);
  if (!bytes || bytes->empty())
    throw_error(ErrorKind::kInvalidArgument, path_, "the key of the account is not base64");
  signer_ = make_azure_signer(account, *bytes);
}

void AzureAccess::authorize(HttpRequest& request, bool fresh) const {
  request.headers.emplace_back(kVersion);
  request.signer = signer_;
  if (!shared_access_.empty())
    request.url += (request.url.find('?') == std::string::npos ? "?" : "&") + shared_access_;
  if (!has_identity_) return;
  const AzureIdentity identity = find_azure_identity(path_, identity_);
  const std::string token =
      kept_token(identity.name(), fresh, [&] { return token_of_azure(path_, identity); });
  request.private_headers.push_back("Authorization: Bearer " + token);
}

std::shared_ptr<const AzureAccess> azure_access(const std::string& bucket) {
  return kept_access<AzureAccess>("az", bucket, kAzureVariables);
}

}  // namespace cellfeed::cloud
