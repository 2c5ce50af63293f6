#include "cellfeed/cloud/s3_access.h"

#include <arrow/filesystem/s3fs.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/base/fork_safe_mutex.h"
#include "cellfeed/cloud/recent_objects.h"
#include "cellfeed/cloud/storage_options.h"
#include "cellfeed/exec/fork_guard.h"

namespace cellfeed::cloud {
namespace {

constexpr std::chrono::seconds kSignatureAge{30};
constexpr double kConnectSeconds = 10;
constexpr double kRequestSeconds = 30;

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

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

// Finalised before what the library keeps is freed at the end of the process.
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
  ::on_exit(end_s3, nullptr);
}

struct Endpoint {
  std::string scheme = "https";
  std::string authority;  // empty: Amazon's own
};

Endpoint parse_endpoint(const std::string& path, std::string_view text) {
  Endpoint endpoint;
  while (text.ends_with('/')) text.remove_suffix(1);
  if (const auto colon = text.find("://"); colon != std::string_view::npos) {
    endpoint.scheme = text.substr(0, colon);
    text.remove_prefix(colon + 3);
  }
  endpoint.authority = text;
  if ((endpoint.scheme != "http" && endpoint.scheme != "https") ||
      text.find_first_of("/@?# ") != std::string_view::npos)
    throw_error(ErrorKind::kInvalidArgument, path,
                "endpoint_url must be http(s)://host or http(s)://host:port");
  return endpoint;
}

std::string_view option(const StorageOptions& options, std::string_view name) {
  const auto found = options.find(name);
  return found == options.end() ? std::string_view() : std::string_view(found->second);
}

std::string_view first_of(std::initializer_list<std::string_view> texts) {
  const auto found = std::ranges::find_if(texts, [](auto text) { return !text.empty(); });
  return found == texts.end() ? std::string_view() : *found;
}

arrow::fs::S3Options make_options(const std::string& path, const StorageOptions& given) {
  const bool has_key = !option(given, "key").empty();
  if (has_key == option(given, "secret").empty())
    throw_error(ErrorKind::kInvalidArgument, path,
                "of the storage options key and secret one is given without the other");
  const bool is_anonymous = given.contains("anon") && parse_flag("anon", option(given, "anon"));
  const auto role = option(given, "role_arn");
  if ((is_anonymous ? 1 : 0) + (has_key ? 1 : 0) + (role.empty() ? 0 : 1) > 1)
    throw_error(ErrorKind::kInvalidArgument, path,
                "give one of the storage options anon, key and role_arn");
  if (is_anonymous) return arrow::fs::S3Options::Anonymous();
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

struct Accesses {
  std::mutex mutex;  // guards what follows
  std::map<std::string, std::shared_ptr<const S3Access>> of_buckets;
  std::string made_for;
};

// A notebook sets variables after it has tried without.
std::string present_settings() {
  std::string settings = std::to_string(storage_options_version());
  for (const char* name :
       {"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION",
        "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
        "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"})
    settings.append(1, '\n').append(environment(name));
  return settings;
}

}  // namespace

std::string percent_encoded(std::string_view text, std::string_view keep) {
  std::string encoded;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 ||
        std::string_view("-._~").find(c) != std::string_view::npos ||
        keep.find(c) != std::string_view::npos)
      encoded += c;
    else
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return encoded;
}

std::string percent_decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned char value = 0;
    const char* const at = text.data() + i;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(at + 1, at + 3, value, 16).ptr == at + 3) {
      decoded += static_cast<char>(value);
      i += 2;
    } else {
      decoded += text[i] == '+' ? ' ' : text[i];
    }
  }
  return decoded;
}

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
  const auto endpoint = parse_endpoint(
      path, first_of({option(given, "endpoint_url"), environment("AWS_ENDPOINT_URL_S3"),
                      environment("AWS_ENDPOINT_URL")}));
  options_->scheme = endpoint.scheme;
  options_->endpoint_override = endpoint.authority;
  region_ = first_of({option(given, "region"), environment("AWS_REGION"),
                      environment("AWS_DEFAULT_REGION"), options_->region});
  if (region_.empty() && endpoint.authority.empty()) {
    auto found = arrow::fs::ResolveS3BucketRegion(bucket_);
    require_ok(found.status(), path);
    region_ = *found;
  }
  if (region_.empty()) region_ = "us-east-1";
  options_->region = region_;
  base_url_ = base_url();
}

S3Access::~S3Access() = default;

std::string S3Access::base_url() const {
  if (!options_->endpoint_override.empty())
    return fmt::format("{}://{}/{}", options_->scheme, options_->endpoint_override, bucket_);
  const std::string host = fmt::format("s3.{}.amazonaws.com", region_);
  // The certificate is of one level of names.
  if (bucket_.find('.') != std::string::npos) return fmt::format("https://{}/{}", host, bucket_);
  return fmt::format("https://{}.{}", bucket_, host);
}

HttpRequest S3Access::request(std::string_view key, std::string_view query, bool fresh) const {
  HttpRequest request;
  request.url = base_url_ + "/" + percent_encoded(key, "/");
  if (!query.empty()) request.url += fmt::format("?{}", query);
  request.signature = signature(fresh);
  return request;
}

Signature S3Access::signature(bool fresh) const {
  if (is_anonymous_) return {};
  const std::scoped_lock lock(mutex_);
  if (!fresh && signature_.is_used() && Clock::now() - signed_ < kSignatureAge) return signature_;
  signature_ = {.region = region_,
                .access_key = options_->GetAccessKey(),
                .secret_key = options_->GetSecretKey(),
                .session_token = options_->GetSessionToken()};
  signed_ = Clock::now();
  if (!signature_.is_used())
    throw_error(ErrorKind::kIo, "s3://" + bucket_,
                "no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
                "AWS_PROFILE; of a public bucket, give storage_options={{\"anon\": True}}");
  return signature_;
}

std::shared_ptr<arrow::fs::FileSystem> S3Access::arrow_files() const {
  const std::scoped_lock lock(mutex_);
  if (!arrow_files_) {
    auto made = arrow::fs::S3FileSystem::Make(*options_);
    require_ok(made.status(), "s3://" + bucket_);
    arrow_files_ = *made;
  }
  return arrow_files_;
}

std::shared_ptr<const S3Access> s3_access(const std::string& bucket) {
  static auto* all = new exec::PerProcess<std::unique_ptr<Accesses>>;
  Accesses& accesses = *all->get([] { return std::make_unique<Accesses>(); });
  const std::scoped_lock lock(accesses.mutex);
  if (std::string settings = present_settings(); accesses.made_for != settings) {
    accesses.of_buckets.clear();
    accesses.made_for = std::move(settings);
  }
  auto& access = accesses.of_buckets[bucket];
  if (!access) {
    access = std::make_shared<const S3Access>(bucket);
    recent_objects().forget_below("s3://" + bucket + "/");  // of another place, maybe
  }
  return access;
}

}  // namespace cellfeed::cloud
