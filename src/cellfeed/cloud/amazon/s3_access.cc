#include "cellfeed/cloud/amazon/s3_access.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/cloud/amazon/aws_signature.h"
#include "cellfeed/cloud/http/http_ask.h"
#include "cellfeed/cloud/http/http_object.h"
#include "cellfeed/cloud/percent.h"
#include "cellfeed/cloud/settings.h"
#include "cellfeed/cloud/storage_options.h"

namespace cellfeed::cloud {
namespace {

// Credentials are looked for again after that: files and the environment may have others.
constexpr std::chrono::seconds kSignerAge{30};

// host: of the servers of a region, or of all.
std::string amazon_url(const std::string& bucket, const std::string& host) {
  // A certificate covers one level of names, so a bucket with dots goes into the path.
  const bool has_dots = bucket.find('.') != std::string::npos;
  return has_dots ? fmt::format("https://{}/{}", host, bucket)
                  : fmt::format("https://{}.{}", bucket, host);
}

std::string find_region(const std::string& bucket, const std::string& path) {
  HttpRequest request;
  request.method = "HEAD";
  request.url = amazon_url(bucket, "s3.amazonaws.com") + "/";
  const HttpAnswer answer = ask_until_answered(request);
  const std::string_view region = answer.header("x-amz-bucket-region");
  if (region.empty())
    throw_error(ErrorKind::kIo, path,
                "its region was not told: {}; the storage option region or AWS_REGION name it",
                describe_refusal(answer));
  return std::string(region);
}

bool is_of_a_bucket_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("-_.").find(c) != std::string_view::npos;
}

constexpr const char* kS3Variables[] = {"AWS_ENDPOINT_URL",
                                        "AWS_ENDPOINT_URL_S3",
                                        "AWS_REGION",
                                        "AWS_DEFAULT_REGION",
                                        "AWS_PROFILE",
                                        "AWS_ACCESS_KEY_ID",
                                        "AWS_SECRET_ACCESS_KEY",
                                        "AWS_SESSION_TOKEN",
                                        "AWS_CONFIG_FILE",
                                        "AWS_SHARED_CREDENTIALS_FILE",
                                        "AWS_DEFAULT_PROFILE",
                                        "AWS_ROLE_ARN",
                                        "AWS_WEB_IDENTITY_TOKEN_FILE",
                                        "AWS_ENDPOINT_URL_STS",
                                        "AWS_ENDPOINT_URL_SSO",
                                        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                                        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                                        "AWS_CONTAINER_AUTHORIZATION_TOKEN",
                                        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
                                        "AWS_EC2_METADATA_DISABLED",
                                        "AWS_EC2_METADATA_SERVICE_ENDPOINT",
                                        "AWS_ROLE_SESSION_NAME",
                                        "HOME"};

}  // namespace

S3Access::S3Access(std::string bucket) : bucket_(std::move(bucket)) {
  const std::string path = "s3://" + bucket_;
  const StorageOptions given = storage_options_of("s3", bucket_);
  if (!std::ranges::all_of(bucket_, is_of_a_bucket_name))
    throw_error(ErrorKind::kInvalidArgument, path,
                "the name of a bucket has letters, digits, '-', '_' and '.'");
  given_ = {.access_key = std::string(option(given, "key")),
            .secret_key = std::string(option(given, "secret")),
            .session_token = std::string(option(given, "token"))};
  if (given_.access_key.empty() != given_.secret_key.empty())
    throw_error(ErrorKind::kInvalidArgument, path,
                "of the storage options key and secret one is given without the other");
  is_anonymous_ = is_anonymous(given);
  account_ = {.path = path,
              .profile = std::string(option(given, "profile")),
              .role_arn = std::string(option(given, "role_arn"))};
  if (is_anonymous_ + !given_.access_key.empty() +
          !(account_.role_arn.empty() && account_.profile.empty()) >
      1)
    throw_error(ErrorKind::kInvalidArgument, path,
                "give one of the storage options anon, key, and profile or role_arn");
  StorageOptions profile;
  if (!is_anonymous_ && given_.access_key.empty()) profile = aws_profile(account_);
  const std::string endpoint(
      first_of({option(given, "endpoint_url"), environment("AWS_ENDPOINT_URL_S3"),
                environment("AWS_ENDPOINT_URL"), option(profile, "endpoint_url")}));
  region_ = first_of(
      {option(given, "region"), environment("AWS_REGION"), environment("AWS_DEFAULT_REGION")});
  // The profile's region is that of the account, and buckets may lie elsewhere.
  account_.region = first_of({region_, option(profile, "region"), "us-east-1"});
  if (region_.empty()) region_ = endpoint.empty() ? find_region(bucket_, path) : account_.region;
  base_url_ = endpoint.empty()
                  ? amazon_url(bucket_, fmt::format("s3.{}.{}", region_, amazon_domain(region_)))
                  : fmt::format("{}/{}", parse_endpoint(path, "endpoint_url", endpoint), bucket_);
}

std::string S3Access::url(std::string_view key, std::string_view query) const {
  return fmt::format("{}/{}{}{}", base_url_, percent_encoded(key, "/"), query.empty() ? "" : "?",
                     query);
}

std::shared_ptr<const RequestSigner> S3Access::signer(bool fresh) const {
  if (is_anonymous_) return nullptr;
  {
    const std::scoped_lock lock(mutex_);
    if (!fresh && signer_ && Clock::now() - made_ < kSignerAge) return signer_;
  }
  AwsCredentials found = given_.access_key.empty() ? find_aws_credentials(account_, fresh) : given_;
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
  found.region = region_;
  const std::scoped_lock lock(mutex_);
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
