#include "cellfeed/cloud/google/google_token.h"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/cloud/digest.h"
#include "cellfeed/cloud/settings.h"
#include "cellfeed/io/small_file.h"

namespace cellfeed::cloud {
namespace {

constexpr std::string_view kGoogleScope = "https://www.googleapis.com/auth/devstorage.read_write";
constexpr std::string_view kTokenServer = "https://oauth2.googleapis.com/token";
constexpr int kTokenSeconds = 3600;
constexpr std::int64_t kMaxKeyFileBytes = 1 << 20;

struct KeyFile {
  std::string path;
  nlohmann::json content;

  std::string text(const char* name) const {
    const auto found = content.find(name);
    if (found == content.end() || !found->is_string())
      throw_error(ErrorKind::kInvalidArgument, path, "the credentials lack '{}'", name);
    return found->get<std::string>();
  }
};

KeyFile read_key_file(const std::string& path) {
  KeyFile file{path,
               nlohmann::json::parse(io::read_small_file(path, kMaxKeyFileBytes), nullptr, false)};
  if (!file.content.is_object())
    throw_error(ErrorKind::kInvalidArgument, path,
                "is no file of credentials, as Google's tools write them as JSON");
  return file;
}

// Base64 as a URL can hold it (RFC 4648, section 5), without padding.
std::string base64_of_url(std::string_view bytes) {
  std::string text = base64(bytes);
  text.resize(text.find_last_not_of('=') + 1);
  for (char& letter : text) letter = letter == '+' ? '-' : letter == '/' ? '_' : letter;
  return text;
}

struct FreeKey {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

// RS256 (RFC 7518, section 3.3). Empty where the key is none of RSA.
std::optional<std::string> rsa_signature(std::string_view pem, std::string_view text) {
  const std::unique_ptr<BIO, FreeKey> bio(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  const std::unique_ptr<EVP_PKEY, FreeKey> key(
      PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr));
  const std::unique_ptr<EVP_MD_CTX, FreeKey> context(EVP_MD_CTX_new());
  if (!key || !context || EVP_PKEY_base_id(key.get()) != EVP_PKEY_RSA) return std::nullopt;
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  std::size_t n = 0;
  if (EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key.get()) != 1 ||
      EVP_DigestSign(context.get(), nullptr, &n, bytes, text.size()) != 1)
    return std::nullopt;
  std::string signature(n, '\0');
  if (EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &n, bytes,
                     text.size()) != 1)
    return std::nullopt;
  signature.resize(n);
  return signature;
}

// A claim that the account signs (RFC 7523).
AccessToken token_of_service_account(const std::string& path, const KeyFile& file) {
  const std::string server =
      file.content.contains("token_uri") ? file.text("token_uri") : std::string(kTokenServer);
  const std::time_t now = std::time(nullptr);
  nlohmann::json header{{"alg", "RS256"}, {"typ", "JWT"}};
  if (file.content.contains("private_key_id")) header["kid"] = file.text("private_key_id");
  const nlohmann::json claim{{"iss", file.text("client_email")},
                             {"scope", kGoogleScope},
                             {"aud", server},
                             {"iat", now},
                             {"exp", now + kTokenSeconds}};
  const std::string text =
      fmt::format("{}.{}", base64_of_url(header.dump()), base64_of_url(claim.dump()));
  const auto signature = rsa_signature(file.text("private_key"), text);
  if (!signature)
    throw_error(ErrorKind::kInvalidArgument, file.path,
                "its 'private_key' is no RSA key in PEM: write the credentials anew");
  return ask_for_token(
      token_form(server, {{"grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"},
                          {"assertion", fmt::format("{}.{}", text, base64_of_url(*signature))}}),
      path);
}

AccessToken token_of_login(const std::string& path, const KeyFile& file) {
  const std::string server =
      file.content.contains("token_uri") ? file.text("token_uri") : std::string(kTokenServer);
  return ask_for_token(token_form(server, {{"grant_type", "refresh_token"},
                                           {"client_id", file.text("client_id")},
                                           {"client_secret", file.text("client_secret")},
                                           {"refresh_token", file.text("refresh_token")}}),
                       path);
}

}  // namespace

AccessToken token_of_google_file(const std::string& path, const std::string& key_file) {
  const KeyFile file = read_key_file(key_file);
  const std::string kind = file.text("type");
  if (kind == "service_account") return token_of_service_account(path, file);
  if (kind == "authorized_user") return token_of_login(path, file);
  throw_error(ErrorKind::kUnsupported, key_file,
              "credentials of the kind '{}' are not read; those of a service account and of "
              "`gcloud auth application-default login` are",
              kind);
}

AccessToken token_of_google_machine(const std::string& path) {
  const std::string_view host =
      first_of({environment("GCE_METADATA_HOST"), "metadata.google.internal"});
  HttpRequest request;
  request.url =
      fmt::format("http://{}/computeMetadata/v1/instance/service-accounts/default/token", host);
  request.headers.emplace_back("Metadata-Flavor: Google");
  return ask_machine_for_token(
      request, path,
      "set GOOGLE_APPLICATION_CREDENTIALS to the key file of a service account, or run "
      "`gcloud auth application-default login`; of a public bucket, give "
      "storage_options={\"anon\": True}");
}

}  // namespace cellfeed::cloud
