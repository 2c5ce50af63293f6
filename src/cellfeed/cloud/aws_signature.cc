#include "cellfeed/cloud/aws_signature.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>

#include "cellfeed/base/error.h"

namespace cellfeed::cloud {
namespace {

using Digest = std::array<unsigned char, 32>;

std::string hex(const Digest& digest) {
  std::string text;
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

Digest sha256(std::string_view text) {
  Digest digest{};
  unsigned int n = 0;
  if (EVP_Digest(text.data(), text.size(), digest.data(), &n, EVP_sha256(), nullptr) != 1)
    throw Error(ErrorKind::kInternal, "SHA-256 is not available");
  return digest;
}

std::string_view view(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

Digest hmac(std::string_view key, std::string_view text) {
  Digest digest{};
  unsigned int n = 0;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(),
           &n) == nullptr)
    throw Error(ErrorKind::kInternal, "HMAC with SHA-256 is not available");
  return digest;
}

struct Address {
  std::string_view host;  // as it is sent: without the port that the scheme has anyway
  std::string_view path;
  std::string_view query;
};

Address parse_url(std::string_view url) {
  Address address;
  const auto colon = url.find("://");
  const std::string_view usual_port = url.substr(0, colon) == "http" ? ":80" : ":443";
  url.remove_prefix(colon + 3);
  const auto slash = url.find('/');
  address.host = url.substr(0, slash);
  if (address.host.ends_with(usual_port)) address.host.remove_suffix(usual_port.size());
  url.remove_prefix(slash);
  const auto mark = url.find('?');
  address.path = url.substr(0, mark);
  if (mark != std::string_view::npos) address.query = url.substr(mark + 1);
  return address;
}

}  // namespace

std::vector<std::string> sign_request(const HttpRequest& request, std::time_t now) {
  const Signature& by = request.signature;
  const Address address = parse_url(request.url);
  const std::string time = fmt::format("{:%Y%m%dT%H%M%SZ}", fmt::gmtime(now));
  const std::string day = time.substr(0, 8);
  const std::string of_body = hex(sha256(request.body));
  std::vector<std::string> headers{"x-amz-content-sha256: " + of_body, "x-amz-date: " + time};
  std::string canonical_headers =
      fmt::format("host:{}\nx-amz-content-sha256:{}\nx-amz-date:{}\n", address.host, of_body, time);
  std::string names = "host;x-amz-content-sha256;x-amz-date";
  if (!by.session_token.empty()) {
    headers.push_back("x-amz-security-token: " + by.session_token);
    canonical_headers += fmt::format("x-amz-security-token:{}\n", by.session_token);
    names += ";x-amz-security-token";
  }
  const std::string canonical = fmt::format("{}\n{}\n{}\n{}\n{}\n{}", request.method, address.path,
                                            address.query, canonical_headers, names, of_body);
  const std::string scope = fmt::format("{}/{}/s3/aws4_request", day, by.region);
  const std::string signed_text =
      fmt::format("AWS4-HMAC-SHA256\n{}\n{}\n{}", time, scope, hex(sha256(canonical)));
  const Digest of_day = hmac("AWS4" + by.secret_key, day);
  const Digest of_region = hmac(view(of_day), by.region);
  const Digest of_service = hmac(view(of_region), "s3");
  const Digest key = hmac(view(of_service), "aws4_request");
  headers.push_back(fmt::format(
      "Authorization: AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={}, Signature={}",
      by.access_key, scope, names, hex(hmac(view(key), signed_text))));
  return headers;
}

}  // namespace cellfeed::cloud
