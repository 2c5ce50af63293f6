#include "cellfeed/cloud/azure/azure_token.h"

#include <fmt/format.h>

#include <string_view>

#include "cellfeed/base/error.h"
#include "cellfeed/cloud/percent.h"
#include "cellfeed/cloud/settings.h"
#include "cellfeed/io/small_file.h"

namespace cellfeed::cloud {
namespace {

constexpr std::string_view kResource = "https://storage.azure.com/";
constexpr std::string_view kAzureScope = "https://storage.azure.com/.default";
constexpr std::int64_t kMaxTokenBytes = 1 << 20;

std::string token_server(const std::string& path, const std::string& tenant) {
  const std::string host =
      parse_endpoint(path, "AZURE_AUTHORITY_HOST",
                     first_of({environment("AZURE_AUTHORITY_HOST"), "login.microsoftonline.com"}));
  return fmt::format("{}/{}/oauth2/v2.0/token", host, percent_encoded(tenant));
}

// Of the service that an app, or a machine, of Azure has beside it.
std::string machine_server() {
  if (const auto app = environment("IDENTITY_ENDPOINT"); !app.empty()) return std::string(app);
  return fmt::format(
      "{}/metadata/identity/oauth2/token",
      first_of({environment("AZURE_POD_IDENTITY_AUTHORITY_HOST"), "http://169.254.169.254"}));
}

AccessToken token_of_machine(const std::string& path, const AzureIdentity& identity) {
  HttpRequest request;
  const bool is_app = !environment("IDENTITY_ENDPOINT").empty();
  request.private_headers.push_back(
      is_app ? fmt::format("X-IDENTITY-HEADER: {}", environment("IDENTITY_HEADER"))
             : "Metadata: true");
  request.url = fmt::format("{}?api-version={}&resource={}", identity.server,
                            is_app ? "2019-08-01" : "2018-02-01", percent_encoded(kResource));
  if (!identity.client.empty())
    request.url += fmt::format("&client_id={}", percent_encoded(identity.client));
  return ask_machine_for_token(
      request, path,
      "set AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN or AZURE_CLIENT_ID with "
      "AZURE_CLIENT_SECRET; of a public container, give storage_options={\"anon\": True}");
}

}  // namespace

AzureIdentity find_azure_identity(const std::string& path, const StorageOptions& options) {
  const auto found = [&](std::string_view name, const char* variable) {
    return std::string(option(options, "client_id").empty() ? environment(variable)
                                                            : option(options, name));
  };
  AzureIdentity identity{.client = found("client_id", "AZURE_CLIENT_ID"),
                         .secret = found("client_secret", "AZURE_CLIENT_SECRET"),
                         .token_file = found("", "AZURE_FEDERATED_TOKEN_FILE"),
                         .server = {}};
  const std::string tenant(
      first_of({option(options, "tenant_id"), environment("AZURE_TENANT_ID")}));
  if (!option(options, "client_secret").empty() && option(options, "client_id").empty())
    throw_error(
        ErrorKind::kInvalidArgument, path,
        "of the storage options client_id and client_secret one is given without the other");
  const bool is_application = !identity.secret.empty() || !identity.token_file.empty();
  if (is_application && (tenant.empty() || identity.client.empty()))
    throw_error(ErrorKind::kInvalidArgument, path,
                "an application needs its tenant and its client beside its secret: "
                "AZURE_TENANT_ID and AZURE_CLIENT_ID, or tenant_id and client_id of "
                "storage_options");
  identity.server = is_application ? token_server(path, tenant) : machine_server();
  return identity;
}

AccessToken token_of_azure(const std::string& path, const AzureIdentity& identity) {
  if (!identity.secret.empty())
    return ask_for_token(token_form(identity.server, {{"grant_type", "client_credentials"},
                                                      {"client_id", identity.client},
                                                      {"client_secret", identity.secret},
                                                      {"scope", kAzureScope}}),
                         path);
  if (!identity.token_file.empty())
    return ask_for_token(
        token_form(
            identity.server,
            {{"grant_type", "client_credentials"},
             {"client_id", identity.client},
             {"client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
             {"client_assertion", io::read_small_file(identity.token_file, kMaxTokenBytes)},
             {"scope", kAzureScope}}),
        path);
  return token_of_machine(path, identity);
}

}  // namespace cellfeed::cloud
