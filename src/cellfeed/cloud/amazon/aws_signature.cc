#include "cellfeed/cloud/amazon/aws_signature.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "cellfeed/cloud/digest.h"

namespace cellfeed::cloud {
namespace {

constexpr std::string_view kOfAmazon = "x-amz-";  // headers that are to be signed

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

std::vector<std::string> sign_request(const HttpRequest& request, const AwsCredentials& by,
                                      std::time_t now) {
  const Address address = parse_url(request.url);
  const std::string time = fmt::format("{:%Y%m%dT%H%M%SZ}", fmt::gmtime(now));
  const std::string day = time.substr(0, 8);
  const std::string of_body = hex(sha256(request.body));
  std::vector<std::string> headers{"x-amz-content-sha256: " + of_body, "x-amz-date: " + time};
  if (!by.session_token.empty()) headers.push_back("x-amz-security-token: " + by.session_token);
  std::vector<std::string> all{fmt::format("host: {}", address.host)};
  all.insert(all.end(), headers.begin(), headers.end());
  for (const std::string& header : request.headers)
    if (header.starts_with(kOfAmazon)) all.push_back(header);
  std::ranges::sort(all);
  std::string canonical_headers, names;
  for (const std::string& header : all) {
    const auto colon = header.find(": ");
    names += (names.empty() ? "" : ";") + header.substr(0, colon);
    canonical_headers += header.substr(0, colon) + ":" + header.substr(colon + 2) + "\n";
  }
  const std::string canonical = fmt::format("{}\n{}\n{}\n{}\n{}\n{}", request.method, address.path,
                                            address.query, canonical_headers, names, of_body);
  const std::string scope = fmt::format("{}/{}/{}/aws4_request", day, by.region, by.service);
  const std::string signed_text =
      fmt::format("AWS4-HMAC-SHA256\n{}\n{}\n{}", time, scope, hex(sha256(canonical)));
  const Digest of_day = hmac_sha256("AWS4" + by.secret_key, day);
  const Digest of_region = hmac_sha256(bytes_of(of_day), by.region);
  const Digest of_service = hmac_sha256(bytes_of(of_region), by.service);
  const Digest key = hmac_sha256(bytes_of(of_service), "aws4_request");
  headers.push_back(fmt::format(
      "Authorization: AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={}, Signature={}",
      by.access_key, scope, names, hex(hmac_sha256(bytes_of(key), signed_text))));
  return headers;
}

class AwsSigner final : public RequestSigner {
 public:
  explicit AwsSigner(AwsCredentials credentials) : credentials_(std::move(credentials)) {}
  std::vector<std::string> sign(const HttpRequest& request, std::span<const std::string>,
                                std::time_t now) const override {
    return sign_request(request, credentials_, now);
  }

 private:
  const AwsCredentials credentials_;
};

}  // namespace

std::string_view amazon_domain(std::string_view region) {
  return region.starts_with("cn-") ? "amazonaws.com.cn" : "amazonaws.com";
}

std::shared_ptr<const RequestSigner> make_aws_signer(AwsCredentials credentials) {
  return std::make_shared<const AwsSigner>(std::move(credentials));
}

}  // namespace cellfeed::cloud
