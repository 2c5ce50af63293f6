#include "cellfeed/cloud/s3_access.h"

#include <arrow/filesystem/s3fs.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/base/fork_safe_mutex.h"
#include "cellfeed/cloud/aws_signature.h"
#include "cellfeed/cloud/percent.h"
#include "cellfeed/cloud/settings.h"
#include "cellfeed/cloud/storage_options.h"
#include "cellfeed/exec/fork_guard.h"

namespace cellfeed::cloud {
namespace {

constexpr std::chrono::seconds kSignerAge{30};
constexpr double kConnectSeconds = 10;
constexpr double kRequestSeconds = 30;

void require_ok(const arrow::Status& status, const std::string& path) {
  if (!status.ok()) throw_error(ErrorKind::kIo, path, "{}", status.message());
}

std::uint64_t initialized_in = 0;

// The library frees what it keeps when the process ends, and joins its threads for that: in a
// forked child there are none to join, so that it ends without.
void end_s3(int status, void*) {
  if (exec::fork_generation() == initialized_in) {
    static_cast<void>(arrow::fs::EnsureS3Finalized());
    return;
  }
  std::fflush(nullptr);
  ::_exit(status);
}

// Before what the library keeps is freed at the end of the process, which goes backwards: to be
// asked for again once the library keeps more. The first call ends it.
void end_s3_at_exit() { ::on_exit(end_s3, nullptr); }

void initialize_s3(const std::string& path) {
  static ForkSafeMutex mutex;
  const std::scoped_lock lock(mutex);
  if (arrow::fs::IsS3Initialized()) return;
  if (arrow::fs::IsS3Finalized())
    throw_error(ErrorKind::kIo, path, "S3 was shut down in this process");
  arrow::fs::S3GlobalOptions options = arrow::fs::S3GlobalOptions::Defaults();
  options.log_level = arrow::fs::S3LogLevel::Off;
  require_ok(arrow::fs::InitializeS3(options), path);
  initialized_in = exec::fork_generation();
  end_s3_at_exit();
}

std::string find_region(const std::string& bucket, const std::string& path) {
  auto found = arrow::fs::ResolveS3BucketRegion(bucket);
  // The library keeps its resolver.
  [[maybe_unused]] static const bool is_ended_before = (end_s3_at_exit(), true);
  if (!found.ok())
    throw_error(ErrorKind::kIo, path,
                "{}; the storage option region or AWS_REGION say where the bucket is",
                found.status().message());
  return *found;
}

arrow::fs::S3Options make_options(const std::string& path, const StorageOptions& given) {
  const bool has_key = !option(given, "key").empty();
  if (has_key == option(given, "secret").empty())
    throw_error(ErrorKind::kInvalidArgument, path,
                "of the storage options key and secret one is given without the other");
  const bool is_public = is_anonymous(given);
  const auto role = option(given, "role_arn");
  if ((is_public ? 1 : 0) + (has_key ? 1 : 0) + (role.empty() ? 0 : 1) > 1)
    throw_error(ErrorKind::kInvalidArgument, path,
                "give one of the storage options anon, key and role_arn");
  if (is_public) return arrow::fs::S3Options::Anonymous();
  if (has_key)
    return arrow::fs::S3Options::FromAccessKey(std::string(option(given, "key")),
                                               std::string(option(given, "secret")),
                                               std::string(option(given, "token")));
  if (!role.empty()) return arrow::fs::S3Options::FromAssumeRole(std::string(role));
  return arrow::fs::S3Options::Defaults();
}

bool is_of_a_bucket_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("-_.").find(c) != std::string_view::npos;
}

constexpr const char* kS3Variables[] = {
    "AWS_ENDPOINT_URL",           "AWS_ENDPOINT_URL_S3", "AWS_REGION",
    "AWS_DEFAULT_REGION",         "AWS_PROFILE",         "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",      "AWS_SESSION_TOKEN",   "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE"};

}  // namespace

S3Access::S3Access(std::string bucket) : bucket_(std::move(bucket)) {
  const std::string path = "s3://" + bucket_;
  const StorageOptions given = storage_options_of("s3", bucket_);
  if (!option(given, "profile").empty())
    throw_error(ErrorKind::kUnsupported, path,
                "a profile is named by the environment variable AWS_PROFILE, not by "
                "storage_options");
  if (!std::ranges::all_of(bucket_, is_of_a_bucket_name))
    throw_error(ErrorKind::kInvalidArgument, path,
                "the name of a bucket has letters, digits, '-', '_' and '.'");
  initialize_s3(path);
  options_ = std::make_unique<arrow::fs::S3Options>(make_options(path, given));
  options_->connect_timeout = kConnectSeconds;
  options_->request_timeout = kRequestSeconds;
  options_->allow_delayed_open = true;
  is_anonymous_ = options_->credentials_kind == arrow::fs::S3CredentialsKind::Anonymous;
  const auto endpoint = first_of({option(given, "endpoint_url"), environment("AWS_ENDPOINT_URL_S3"),
                                  environment("AWS_ENDPOINT_URL")});
  if (!endpoint.empty()) set_endpoint(parse_endpoint(path, "endpoint_url", endpoint));
  region_ = first_of({option(given, "region"), environment("AWS_REGION"),
                      environment("AWS_DEFAULT_REGION"), options_->region});
  if (region_.empty() && endpoint.empty()) region_ = find_region(bucket_, path);
  if (region_.empty()) region_ = "us-east-1";
  options_->region = region_;
  base_url_ = base_url();
}

S3Access::~S3Access() = default;

void S3Access::set_endpoint(const std::string& url) {
  const auto colon = url.find("://");
  options_->scheme = url.substr(0, colon);
  options_->endpoint_override = url.substr(colon + 3);
}

std::string S3Access::base_url() const {
  if (!options_->endpoint_override.empty())
    return fmt::format("{}://{}/{}", options_->scheme, options_->endpoint_override, bucket_);
  const std::string host = fmt::format("s3.{}.amazonaws.com", region_);
  // The certificate is of one level of names.
  if (bucket_.find('.') != std::string::npos) return fmt::format("https://{}/{}", host, bucket_);
  return fmt::format("https://{}.{}", bucket_, host);
}

std::string S3Access::url(std::string_view key, std::string_view query) const {
  return fmt::format("{}/{}{}{}", base_url_, percent_encoded(key, "/"), query.empty() ? "" : "?",
                     query);
}

std::shared_ptr<const RequestSigner> S3Access::signer(bool fresh) const {
  if (is_anonymous_) return nullptr;
  const std::scoped_lock lock(mutex_);
  if (!fresh && signer_ && Clock::now() - made_ < kSignerAge) return signer_;
  AwsCredentials found{.region = region_,
                       .access_key = options_->GetAccessKey(),
                       .secret_key = options_->GetSecretKey(),
                       .session_token = options_->GetSessionToken()};
  if (found.access_key.empty())
    throw_error(ErrorKind::kIo, "s3://" + bucket_,
                "no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
                "AWS_PROFILE; of a public bucket, give storage_options={{\"anon\": True}}");
  for (const std::string* text : {&found.access_key, &found.secret_key, &found.session_token})
    if (std::ranges::any_of(*text, [](unsigned char c) { return c <= ' ' || c == 0x7f; }))
      throw_error(ErrorKind::kInvalidArgument, "s3://" + bucket_,
                  "its {} holds a space, a line end or another control character",
                  text == &found.access_key
                      ? "access key (AWS_ACCESS_KEY_ID, or the one of a profile)"
                  : text == &found.secret_key
                      ? "secret key (AWS_SECRET_ACCESS_KEY, or the one of a profile)"
                      : "session token (AWS_SESSION_TOKEN)");
  signer_ = make_aws_signer(std::move(found));
  made_ = Clock::now();
  return signer_;
}

std::shared_ptr<const S3Access> s3_access(const std::string& bucket) {
  return kept_access<S3Access>("s3", bucket, kS3Variables);
}

HttpRequest s3_request(std::string method, const BucketPath& path, std::string_view query) {
  HttpRequest request;
  request.method = std::move(method);
  request.url = s3_access(path.bucket)->url(path.key, query);
  return request;
}

}  // namespace cellfeed::cloud
