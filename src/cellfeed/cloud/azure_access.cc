#include "cellfeed/cloud/azure_access.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/cloud/access_token.h"
#include "cellfeed/cloud/azure_signature.h"
#include "cellfeed/cloud/azure_token.h"
#include "cellfeed/cloud/digest.h"
#include "cellfeed/cloud/percent.h"
#include "cellfeed/cloud/settings.h"

namespace cellfeed::cloud {
namespace {

// The oldest with all that is asked for here.
constexpr const char* kVersion = "x-ms-version: 2021-12-02";
constexpr std::string_view kHost = "core.windows.net";
constexpr const char* kVariables[] = {"AZURE_STORAGE_CONNECTION_STRING",
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

}  // namespace

struct AzureAccess::Account {
  std::string name;
  std::string container;
  std::string url;
  Parts connection;  // empty: none is given
};

AzureAccess::AzureAccess(const std::string& bucket) : path_("az://" + bucket) {
  const StorageOptions given = storage_options_of("az", bucket);
  const Account account = find_account(bucket, given);
  container_url_ = fmt::format("{}/{}", account.url, percent_encoded(account.container));
  take_credentials(account, given);
}

AzureAccess::Account AzureAccess::find_account(const std::string& bucket,
                                               const StorageOptions& given) const {
  Account account{.name = {}, .container = bucket, .url = {}, .connection = {}};
  std::string host;
  if (const auto at = bucket.find('@'); at != std::string::npos) {
    account.container = bucket.substr(0, at);
    host = bucket.substr(at + 1);
    account.name = host.substr(0, host.find('.'));
    if (account.container.empty() || host.find('.') == std::string::npos)
      throw_error(ErrorKind::kInvalidArgument, path_,
                  "names no container of an account: "
                  "az://container@account.blob.{}/name is one",
                  kHost);
    // The same blobs, by the other of its two interfaces.
    if (const auto dfs = host.find(".dfs."); dfs != std::string::npos)
      host.replace(dfs, 5, ".blob.");
  } else {
    account.connection =
        parse_connection(path_, first_of({option(given, "connection_string"),
                                          option(given, "account_name").empty()
                                              ? environment("AZURE_STORAGE_CONNECTION_STRING")
                                              : std::string_view()}));
    account.name =
        first_of({option(given, "account_name"), part(account.connection, "AccountName"),
                  environment("AZURE_STORAGE_ACCOUNT_NAME"), environment("AZURE_STORAGE_ACCOUNT")});
  }
  const std::string_view endpoint =
      first_of({option(given, "endpoint_url"), part(account.connection, "BlobEndpoint")});
  if (account.name.empty() && endpoint.empty())
    throw_error(ErrorKind::kInvalidArgument, path_,
                "no storage account is named: set AZURE_STORAGE_ACCOUNT_NAME, or give "
                "storage_options={{\"account_name\": ...}}");
  if (!std::ranges::all_of(account.name, [](unsigned char c) { return std::isalnum(c) != 0; }))
    throw_error(ErrorKind::kInvalidArgument, path_,
                "the name of a storage account has letters and digits");
  if (!endpoint.empty())
    account.url = parse_endpoint(path_, "endpoint_url", endpoint);
  else if (!host.empty())
    account.url = "https://" + host;
  else
    account.url = fmt::format("https://{}.blob.{}", account.name,
                              first_of({part(account.connection, "EndpointSuffix"), kHost}));
  return account;
}

void AzureAccess::take_credentials(const Account& account, const StorageOptions& given) {
  const bool has_options = std::ranges::any_of(
      std::initializer_list<const char*>{"account_key", "sas_token", "client_id", "anon"},
      [&](const char* name) { return !option(given, name).empty(); });
  if (is_anonymous(given)) return;
  // Options go before the environment, whatever kind they are of.
  const auto found = [&](const char* name, std::string_view in_connection,
                         std::initializer_list<const char*> variables) {
    std::string_view text =
        first_of({option(given, name), part(account.connection, in_connection)});
    if (has_options || !text.empty()) return std::string(text);
    for (const char* variable : variables) text = first_of({text, environment(variable)});
    return std::string(text);
  };
  shared_access_ = found("sas_token", "SharedAccessSignature", {"AZURE_STORAGE_SAS_TOKEN"});
  if (shared_access_.starts_with('?')) shared_access_.erase(0, 1);
  const std::string key =
      found("account_key", "AccountKey", {"AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_KEY"});
  if (!option(given, "account_key").empty() && !option(given, "sas_token").empty())
    throw_error(ErrorKind::kInvalidArgument, path_,
                "give one of the storage options account_key and sas_token");
  if (!key.empty()) {
    shared_access_.clear();
    const auto bytes = from_base64(key);
    if (!bytes || bytes->empty())
      throw_error(ErrorKind::kInvalidArgument, path_, "the key of the account is not base64");
    signer_ = make_azure_signer(account.name, *bytes);
    return;
  }
  has_identity_ = shared_access_.empty();
  if (has_identity_) identity_ = given;
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
  return kept_access<AzureAccess>("az", bucket, kVariables);
}

}  // namespace cellfeed::cloud
