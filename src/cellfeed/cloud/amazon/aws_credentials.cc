#include "cellfeed/cloud/amazon/aws_credentials.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/cloud/access_token.h"
#include "cellfeed/cloud/amazon/aws_machine.h"
#include "cellfeed/cloud/amazon/aws_profiles.h"
#include "cellfeed/cloud/digest.h"
#include "cellfeed/cloud/http/http_ask.h"
#include "cellfeed/cloud/http/http_object.h"
#include "cellfeed/cloud/json_member.h"
#include "cellfeed/cloud/percent.h"
#include "cellfeed/cloud/settings.h"
#include "cellfeed/cloud/xml_elements.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/io/small_file.h"

namespace cellfeed::cloud {
namespace {

using Keys = std::optional<AwsCredentials>;

constexpr std::int64_t kMaxFileBytes = 1 << 20;

class Search {
 public:
  Search(const AwsAccount& account, bool fresh) : account_(account), is_fresh_(fresh) {
    for (const std::string_view name :
         {std::string_view(account.profile), environment("AWS_DEFAULT_PROFILE"),
          environment("AWS_PROFILE")})
      if (profile_.empty()) profile_ = name;
    is_named_ = !profile_.empty();
    if (!is_named_) profile_ = "default";
  }

  StorageOptions profile() const {
    const auto found = profiles_.find(profile_);
    if (!found && is_named_) throw_no_profile(profile_);
    return found.value_or(StorageOptions());
  }

  AwsCredentials run() const {
    const Keys own = find();
    if (account_.role_arn.empty() || !own) return own.value_or(AwsCredentials());
    return assume_role(*own, account_.role_arn, {});
  }

 private:
  Keys find() const {
    // A profile that the call names counts before the environment.
    const bool uses_environment = account_.profile.empty();
    if (const Keys keys = uses_environment ? of_environment() : std::nullopt) return keys;
    const StorageOptions own = profile();
    const bool has_role = own.contains("role_arn") && !own.contains("web_identity_token_file");
    const auto file = environment("AWS_WEB_IDENTITY_TOKEN_FILE");
    if (uses_environment && !has_role && !file.empty() && !environment("AWS_ROLE_ARN").empty())
      return assume_by_web(std::string(environment("AWS_ROLE_ARN")), std::string(file), {});
    if (const Keys keys = of_profile(profile_, own, {})) return keys;
    if (const Keys keys = aws_container_credentials(account_.path, is_fresh_)) return keys;
    return aws_machine_credentials(account_.path, is_fresh_);
  }

  Keys of_environment() const {
    AwsCredentials keys{.access_key = std::string(environment("AWS_ACCESS_KEY_ID")),
                        .secret_key = std::string(environment("AWS_SECRET_ACCESS_KEY")),
                        .session_token = std::string(environment("AWS_SESSION_TOKEN"))};
    return whole(keys, "the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)");
  }

  Keys static_keys(const StorageOptions& settings, const std::string& name) const {
    AwsCredentials keys{.access_key = std::string(option(settings, "aws_access_key_id")),
                        .secret_key = std::string(option(settings, "aws_secret_access_key")),
                        .session_token = std::string(option(settings, "aws_session_token"))};
    return whole(keys, "profile '" + name + "'");
  }

  Keys whole(const AwsCredentials& keys, const std::string& where) const {
    if (keys.access_key.empty() != keys.secret_key.empty())
      throw_error(ErrorKind::kInvalidArgument, account_.path,
                  "{} has an access key without its secret key, or the other way round", where);
    if (keys.access_key.empty()) return std::nullopt;
    return keys;
  }

  // before: the profiles whose roles are assumed with these keys.
  Keys of_profile(const std::string& name, const StorageOptions& settings,
                  std::vector<std::string> before) const {
    const std::string role(option(settings, "role_arn"));
    const std::string source(option(settings, "source_profile"));
    const std::string_view place = option(settings, "credential_source");
    if (!role.empty() && settings.contains("mfa_serial"))
      throw_error(ErrorKind::kUnsupported, account_.path,
                  "profile '{}' wants a code of a person (mfa_serial): run `aws configure "
                  "export-credentials --profile {} --format env` and set what it prints",
                  name, name);
    if (!role.empty() && settings.contains("web_identity_token_file"))
      return assume_by_web(role, std::string(option(settings, "web_identity_token_file")),
                           settings);
    if (!role.empty() && source.empty() == place.empty())
      throw_error(ErrorKind::kInvalidArgument, account_.path,
                  "profile '{}' has a role_arn, and needs one of source_profile and "
                  "credential_source beside it",
                  name);
    if (!role.empty() && !source.empty()) {
      before.push_back(name);
      const auto other = profiles_.find(source);
      if (!other) throw_no_profile(source);
      const bool is_circle = std::ranges::find(before, source) != before.end();
      Keys keys = static_keys(*other, source);
      if (!keys && !is_circle) keys = of_profile(source, *other, before);
      return assume_role(of_source(keys, name), role, settings);
    }
    if (!role.empty() && !place.empty()) {
      const Keys keys =
          place == "Environment"           ? of_environment()
          : place == "EcsContainer"        ? aws_container_credentials(account_.path, is_fresh_)
          : place == "Ec2InstanceMetadata" ? aws_machine_credentials(account_.path, is_fresh_)
                                           : std::nullopt;
      return assume_role(of_source(keys, name), role, settings);
    }
    if (settings.contains("sso_account_id")) return of_login(name, settings);
    if (const Keys keys = static_keys(settings, name)) return keys;
    if (settings.contains("credential_process"))
      throw_error(ErrorKind::kUnsupported, account_.path,
                  "profile '{}' names a program that prints credentials (credential_process), "
                  "which is not run: run `aws configure export-credentials --profile {} --format "
                  "env` and set what it prints",
                  name, name);
    return std::nullopt;
  }

  const AwsCredentials& of_source(const Keys& keys, const std::string& name) const {
    if (!keys)
      throw_error(ErrorKind::kInvalidArgument, account_.path,
                  "profile '{}' assumes a role with the keys of its source_profile or "
                  "credential_source, and none are there",
                  name);
    return *keys;
  }

  std::string token_server() const {
    const auto given =
        first_of({environment("AWS_ENDPOINT_URL_STS"), environment("AWS_ENDPOINT_URL")});
    if (!given.empty()) return parse_endpoint(account_.path, "AWS_ENDPOINT_URL_STS", given) + "/";
    return fmt::format("https://sts.{}.{}/", account_.region, amazon_domain(account_.region));
  }

  static std::string session_name(std::string_view given) {
    return std::string(first_of({given, environment("AWS_ROLE_SESSION_NAME"), "cellfeed"}));
  }

  // Asks the Security Token Service (STS).
  AccessToken ask_for_role(const HttpRequest& request, const std::string& role) const {
    const HttpAnswer answer = ask_until_answered(request);
    const AwsCredentials keys{.access_key = unescaped(element(answer.body, "AccessKeyId")),
                              .secret_key = unescaped(element(answer.body, "SecretAccessKey")),
                              .session_token = unescaped(element(answer.body, "SessionToken"))};
    if (answer.status != 200 || keys.access_key.empty())
      throw_error(ErrorKind::kIo, account_.path, "the role '{}' was not given: {}", role,
                  describe_refusal(answer));
    return token_of(keys, end_of(std::string(element(answer.body, "Expiration"))));
  }

  AwsCredentials assume_role(const AwsCredentials& by, const std::string& role,
                             const StorageOptions& settings) const {
    const std::string server = token_server();
    const std::string external(option(settings, "external_id"));
    const std::string session = session_name(option(settings, "role_session_name"));
    const std::string seconds(option(settings, "duration_seconds"));
    const auto ask_for_one = [&] {
      HttpRequest request = token_form(server, {{"Action", "AssumeRole"},
                                                {"Version", "2011-06-15"},
                                                {"RoleArn", role},
                                                {"RoleSessionName", session}});
      if (!external.empty()) request.body += "&ExternalId=" + percent_encoded(external);
      if (!seconds.empty()) request.body += "&DurationSeconds=" + percent_encoded(seconds);
      AwsCredentials signing = by;
      signing.region = account_.region;
      signing.service = "sts";
      request.signer = make_aws_signer(std::move(signing));
      return ask_for_role(request, role);
    };
    return kept_keys(fmt::format("aws role {} {} {} {} {} {}", server, role, external, session,
                                 seconds, by.access_key),
                     is_fresh_, ask_for_one);
  }

  AwsCredentials assume_by_web(const std::string& role, const std::string& file,
                               const StorageOptions& settings) const {
    const std::string server = token_server();
    const std::string session = session_name(option(settings, "role_session_name"));
    const auto ask_for_one = [&] {
      return ask_for_role(
          token_form(server, {{"Action", "AssumeRoleWithWebIdentity"},
                              {"Version", "2011-06-15"},
                              {"RoleArn", role},
                              {"RoleSessionName", session},
                              {"WebIdentityToken", io::read_small_file(file, kMaxFileBytes)}}),
          role);
    };
    return kept_keys(fmt::format("aws web {} {} {} {}", server, role, file, session), is_fresh_,
                     ask_for_one);
  }

  // Asks with the login that `aws sso login` saved.
  AwsCredentials of_login(const std::string& name, const StorageOptions& settings) const {
    const std::string_view session_name = option(settings, "sso_session");
    StorageOptions session = profiles_.sso_session(session_name);
    session.insert(settings.begin(), settings.end());
    const std::string start(option(session, "sso_start_url"));
    const std::string region(option(session, "sso_region"));
    const std::string account(option(session, "sso_account_id"));
    const std::string role(option(session, "sso_role_name"));
    if (start.empty() || region.empty() || role.empty())
      throw_error(ErrorKind::kInvalidArgument, account_.path,
                  "profile '{}' has sso_account_id and lacks {}: run `aws configure sso`", name,
                  start.empty()    ? "sso_start_url (or an sso_session that has it)"
                  : region.empty() ? "sso_region"
                                   : "sso_role_name");
    const auto given = environment("AWS_ENDPOINT_URL_SSO");
    const std::string server =
        given.empty() ? fmt::format("https://portal.sso.{}.{}", region, amazon_domain(region))
                      : parse_endpoint(account_.path, "AWS_ENDPOINT_URL_SSO", given);
    const auto ask_for_one = [&] {
      const std::string file =
          fmt::format("{}/.aws/sso/cache/{}.json", environment("HOME"),
                      sha1_hex(session_name.empty() ? std::string_view(start) : session_name));
      const auto login =
          io::exists(file)
              ? nlohmann::json::parse(io::read_small_file(file, kMaxFileBytes), nullptr, false)
              : nlohmann::json();
      const std::string token = text_member(login, "accessToken");
      const auto throw_over = [&](std::string_view why) {
        throw_error(ErrorKind::kIo, account_.path,
                    "the login of profile '{}' {}: run `aws sso login --profile {}`", name, why,
                    name);
      };
      if (token.empty()) throw_over("is not there");
      if (end_of(text_member(login, "expiresAt")) <= Clock::now()) throw_over("has ended");
      HttpRequest request;
      request.url = fmt::format("{}/federation/credentials?account_id={}&role_name={}", server,
                                percent_encoded(account), percent_encoded(role));
      request.private_headers.push_back("x-amz-sso_bearer_token: " +
                                        checked_header(token, account_.path));
      const HttpAnswer answer = ask_until_answered(request);
      if (answer.status == 401) throw_over("has ended");
      const auto body = nlohmann::json::parse(answer.body, nullptr, false);
      const auto given_keys = body.is_object() && body.contains("roleCredentials")
                                  ? body["roleCredentials"]
                                  : nlohmann::json();
      const AwsCredentials keys{.access_key = text_member(given_keys, "accessKeyId"),
                                .secret_key = text_member(given_keys, "secretAccessKey"),
                                .session_token = text_member(given_keys, "sessionToken")};
      if (answer.status != 200 || keys.access_key.empty())
        throw_error(ErrorKind::kIo, account_.path,
                    "the role '{}' of profile '{}' was not given: {}", role, name,
                    describe_refusal(answer));
      const auto end = given_keys.find("expiration");  // in milliseconds
      return token_of(keys, end != given_keys.end() && end->is_number_integer()
                                ? end_at(end->get<std::int64_t>() / 1000)
                                : Clock::now() + kUsualAwsAge);
    };
    return kept_keys(
        fmt::format("aws login {} {} {} {} {}", server, start, session_name, account, role),
        is_fresh_, ask_for_one);
  }

  [[noreturn]] void throw_no_profile(const std::string& name) const {
    throw_error(ErrorKind::kInvalidArgument, account_.path,
                "there is no profile '{}' in {} (AWS_PROFILE, the storage option profile or a "
                "source_profile names it)",
                name, profiles_.files());
  }

  const AwsAccount& account_;
  const bool is_fresh_;
  const AwsProfiles profiles_;
  std::string profile_;
  bool is_named_ = false;
};

}  // namespace

AwsCredentials find_aws_credentials(const AwsAccount& account, bool fresh) {
  return Search(account, fresh).run();
}

StorageOptions aws_profile(const AwsAccount& account) { return Search(account, false).profile(); }

}  // namespace cellfeed::cloud
