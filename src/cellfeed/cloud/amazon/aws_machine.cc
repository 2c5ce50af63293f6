#include "cellfeed/cloud/amazon/aws_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string_view>

#include "cellfeed/base/ascii_case.h"
#include "cellfeed/base/error.h"
#include "cellfeed/base/trimmed.h"
#include "cellfeed/cloud/http/http_ask.h"
#include "cellfeed/cloud/http/http_object.h"
#include "cellfeed/cloud/json_member.h"
#include "cellfeed/cloud/settings.h"
#include "cellfeed/io/small_file.h"

namespace cellfeed::cloud {
namespace {

constexpr std::int64_t kMaxSecretBytes = 1 << 20;
// kept_token asks again some minutes before the end.
constexpr std::chrono::minutes kNoMachine{5};
// The clock counts nanoseconds.
constexpr std::int64_t kLongestAge = std::int64_t{10} * 365 * 24 * 3600;

// The answer of a container's or a machine's server.
AccessToken token_of_json(const HttpAnswer& answer, const std::string& path,
                          std::string_view server) {
  const auto body = nlohmann::json::parse(answer.body, nullptr, false);
  const AwsCredentials keys{.access_key = text_member(body, "AccessKeyId"),
                            .secret_key = text_member(body, "SecretAccessKey"),
                            .session_token = text_member(body, "Token")};
  if (answer.status != 200 || keys.access_key.empty())
    throw_error(ErrorKind::kIo, path, "{} gave no credentials: {}", server,
                answer.status == 200 ? "its answer has no AccessKeyId" : describe_refusal(answer));
  return token_of(keys, end_of(text_member(body, "Expiration")));
}

bool is_beside(std::string_view url) {
  constexpr std::string_view kHosts[] = {"127.0.0.1",     "localhost",      "[::1]",
                                         "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"};
  if (url.find('@') != std::string_view::npos) return false;
  return std::ranges::any_of(kHosts, [&](std::string_view host) {
    const std::string begin = fmt::format("http://{}", host);
    return url.starts_with(begin) && url.size() > begin.size() &&
           (url[begin.size()] == ':' || url[begin.size()] == '/');
  });
}

}  // namespace

Clock::time_point end_at(std::int64_t unix_seconds) {
  return Clock::now() + std::chrono::seconds(
                            std::min<std::int64_t>(unix_seconds - std::time(nullptr), kLongestAge));
}

Clock::time_point end_of(const std::string& text) {
  std::tm time{};
  if (std::sscanf(text.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d", &time.tm_year, &time.tm_mon,
                  &time.tm_mday, &time.tm_hour, &time.tm_min, &time.tm_sec) != 6)
    return Clock::now() + kUsualAwsAge;
  time.tm_year -= 1900;
  time.tm_mon -= 1;
  return end_at(::timegm(&time));
}

AccessToken token_of(const AwsCredentials& keys, Clock::time_point end) {
  const nlohmann::json texts{keys.access_key, keys.secret_key, keys.session_token};
  return {texts.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), end};
}

AwsCredentials kept_keys(const std::string& name, bool fresh,
                         const std::function<AccessToken()>& ask_for_one) {
  const auto texts = nlohmann::json::parse(kept_token(name, fresh, ask_for_one));
  return {.access_key = texts[0], .secret_key = texts[1], .session_token = texts[2]};
}

const std::string& checked_header(const std::string& token, const std::string& path) {
  if (std::ranges::any_of(token, [](unsigned char c) { return c < ' ' || c == 0x7f; }))
    throw_error(
        ErrorKind::kInvalidArgument, path,
        "the token of its container or login holds a line end or another control character");
  return token;
}

std::optional<AwsCredentials> aws_container_credentials(const std::string& path, bool fresh) {
  const std::string_view relative = environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  const std::string url = relative.empty()
                              ? std::string(environment("AWS_CONTAINER_CREDENTIALS_FULL_URI"))
                              : fmt::format("http://169.254.170.2{}", relative);
  if (url.empty()) return std::nullopt;
  if (!url.starts_with("https://") && !is_beside(url))
    throw_error(ErrorKind::kInvalidArgument, path,
                "AWS_CONTAINER_CREDENTIALS_FULL_URI must begin with https://, or with http:// and "
                "an address of this machine, as a secret is sent there");
  return kept_keys("aws container " + url, fresh, [&] {
    HttpRequest request;
    request.url = url;
    const std::string file(environment("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"));
    const std::string token =
        file.empty() ? std::string(environment("AWS_CONTAINER_AUTHORIZATION_TOKEN"))
                     : std::string(trimmed(io::read_small_file(file, kMaxSecretBytes)));
    request.is_direct = true;
    if (!token.empty())
      request.private_headers.push_back("Authorization: " + checked_header(token, path));
    return token_of_json(ask_until_answered(request), path,
                         "the server of this container (AWS_CONTAINER_CREDENTIALS_...)");
  });
}

std::optional<AwsCredentials> aws_machine_credentials(const std::string& path, bool fresh) {
  if (lower(environment("AWS_EC2_METADATA_DISABLED")) == "true") return std::nullopt;
  const std::string server = parse_endpoint(
      path, "AWS_EC2_METADATA_SERVICE_ENDPOINT",
      first_of({environment("AWS_EC2_METADATA_SERVICE_ENDPOINT"), "http://169.254.169.254"}));
  const AwsCredentials keys = kept_keys("aws machine " + server, fresh, [&] {
    HttpRequest session;
    session.method = "PUT";
    session.url = server + "/latest/api/token";
    session.is_direct = true;
    session.private_headers.emplace_back("X-aws-ec2-metadata-token-ttl-seconds: 21600");
    const HttpAnswer opened = ask(session, kMachineTimeouts);
    const auto get = [&](std::string_view name) {
      HttpRequest request;
      request.url = fmt::format("{}/latest/meta-data/iam/security-credentials/{}", server, name);
      request.is_direct = true;
      if (opened.status == 200)
        request.private_headers.push_back("X-aws-ec2-metadata-token: " + opened.body);
      return ask(request, kMachineTimeouts);
    };
    const HttpAnswer roles = opened.is_unreachable ? opened : get("");
    // Elsewhere there is no such service; it is not waited for again soon.
    if (roles.status != 200 || roles.body.empty())
      return token_of({.access_key = {}, .secret_key = {}}, Clock::now() + kNoMachine);
    return token_of_json(get(roles.body.substr(0, roles.body.find('\n'))), path,
                         "the metadata service of this machine");
  });
  if (keys.access_key.empty()) return std::nullopt;
  return keys;
}

}  // namespace cellfeed::cloud
