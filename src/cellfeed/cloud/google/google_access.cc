#include "cellfeed/cloud/google/google_access.h"

#include <fmt/format.h>

#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/cloud/access_token.h"
#include "cellfeed/cloud/google/google_token.h"
#include "cellfeed/cloud/settings.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::cloud {
namespace {

constexpr std::string_view kStorage = "https://storage.googleapis.com";
constexpr const char* kGoogleVariables[] = {"STORAGE_EMULATOR_HOST",
                                            "GOOGLE_APPLICATION_CREDENTIALS", "CLOUDSDK_CONFIG",
                                            "HOME", "GCE_METADATA_HOST"};

// Or a pipe.
bool is_file(const std::string& path) {
  try {
    return io::exists(path) && !io::is_directory(path);
  } catch (const Error&) {  // too long for a path
    return false;
  }
}

// Where gcloud puts the account that a person has logged in with. Empty: nowhere.
std::string login_file() {
  std::string folder(environment("CLOUDSDK_CONFIG"));
  if (folder.empty() && environment("HOME").empty()) return {};
  if (folder.empty()) folder = fmt::format("{}/.config/gcloud", environment("HOME"));
  std::string file = folder + "/application_default_credentials.json";
  return io::exists(file) ? file : std::string();
}

}  // namespace

GoogleAccess::GoogleAccess(std::string bucket) : path_("gs://" + std::move(bucket)) {
  const StorageOptions given = storage_options_of("gs", path_.substr(5));
  const std::string_view token = option(given, "token");
  const std::string_view emulator = environment("STORAGE_EMULATOR_HOST");
  const std::string_view endpoint = option(given, "endpoint_url");
  const bool is_emulator = endpoint.empty() && !emulator.empty();
  base_url_ = kStorage;
  if (!endpoint.empty()) base_url_ = parse_endpoint(path_, "endpoint_url", endpoint);
  // As Google's own clients take it: it may have no scheme, and is one of http.
  if (is_emulator)
    base_url_ = parse_endpoint(path_, "STORAGE_EMULATOR_HOST",
                               emulator.find("://") == std::string_view::npos
                                   ? fmt::format("http://{}", emulator)
                                   : std::string(emulator));
  if (is_anonymous(given) && !token.empty() && token != "anon")
    throw_error(ErrorKind::kInvalidArgument, path_,
                "give one of the storage options anon and token");
  is_anonymous_ = is_emulator || is_anonymous(given) || token == "anon";
  if (is_anonymous_ || token == "cloud") return;
  // What is no file may be a secret, which no error shows.
  if (!token.empty() && !token.ends_with(".json") && !is_file(std::string(token)))
    throw_error(ErrorKind::kInvalidArgument, path_,
                "the storage option token must be the path of a file of credentials, \"anon\" or "
                "\"cloud\", and this is no file that can be read");
  key_file_ = first_of({token, environment("GOOGLE_APPLICATION_CREDENTIALS")});
  if (key_file_.empty()) key_file_ = login_file();
}

void GoogleAccess::authorize(HttpRequest& request, bool fresh) const {
  if (is_anonymous_) return;
  const std::string name = key_file_.empty()
                               ? fmt::format("google machine {}", environment("GCE_METADATA_HOST"))
                               : fmt::format("google file {}", key_file_);
  const std::string token = kept_token(name, fresh, [this] {
    return key_file_.empty() ? token_of_google_machine(path_)
                             : token_of_google_file(path_, key_file_);
  });
  request.private_headers.push_back("Authorization: Bearer " + token);
}

std::shared_ptr<const GoogleAccess> google_access(const std::string& bucket) {
  return kept_access<GoogleAccess>("gs", bucket, kGoogleVariables);
}

}  // namespace cellfeed::cloud
