#include "cellfeed/cloud/storage_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>

#include "cellfeed/base/byte_size.h"
#include "cellfeed/base/error.h"
#include "cellfeed/base/fork_safe_mutex.h"
#include "cellfeed/cloud/settings.h"

namespace cellfeed::cloud {
namespace {

struct SchemeOptions {
  std::string_view scheme;
  std::vector<std::string_view> names;
};

// As fsspec's file systems name them.
const std::vector<SchemeOptions>& known_options() {
  static const std::vector<std::string_view> http{kCacheBytesOption, kCacheOption, kCacheModeOption,
                                                  "headers"};
  static const auto* all = new std::vector<SchemeOptions>{
      {"s3",
       {"anon", kCacheBytesOption, kCacheOption, kCacheModeOption, "endpoint_url", "key", "profile",
        "region", "role_arn", "secret", "token"}},
      {"gs", {"anon", kCacheBytesOption, kCacheOption, kCacheModeOption, "endpoint_url", "token"}},
      {"az",
       {"account_key", "account_name", "anon", kCacheBytesOption, kCacheOption, kCacheModeOption,
        "client_id", "client_secret", "connection_string", "endpoint_url", "sas_token",
        "tenant_id"}},
      {"http", http},
      {"https", http}};
  return *all;
}

struct Given {
  ForkSafeMutex mutex;  // guards of_buckets
  std::map<std::pair<std::string, std::string>, StorageOptions> of_buckets;
  std::atomic<std::uint64_t> version{0};
};

Given& given() {
  static auto* all = new Given;
  return *all;
}

// Schemes that mean the same.
std::string scheme_of(std::string_view written) {
  if (written == "gcs") return "gs";
  return std::string(written == "abfs" || written == "abfss" ? "az" : written);
}

void check_cache(const std::string& path, const StorageOptions& options) {
  const auto mode = options.find(kCacheModeOption);
  if (mode != options.end() && mode->second != kFileMode && mode->second != kBlockMode)
    throw_error(ErrorKind::kInvalidArgument, path,
                "the storage option cache_mode must be file (whole copies) or block (what is "
                "read), not '{}'; packed is asked for when files are opened",
                mode->second);
  if (mode != options.end() && !options.contains(kCacheOption))
    throw_error(ErrorKind::kInvalidArgument, path,
                "the storage option cache_mode needs a folder: cache_dir, or the environment "
                "variable CELLFEED_CACHE");
  const auto limit = options.find(kCacheBytesOption);
  if (limit == options.end()) return;
  parse_byte_size(limit->second);
  if (!options.contains(kCacheOption))
    throw_error(ErrorKind::kInvalidArgument, path,
                "the storage option cache_bytes limits what is kept in cache_dir, which is not "
                "given");
}

void check_names(const std::string& path, std::string_view scheme, const StorageOptions& options) {
  const auto known = std::ranges::find(known_options(), scheme, &SchemeOptions::scheme);
  if (known == known_options().end())
    throw_error(ErrorKind::kInvalidArgument, path,
                "storage_options are for paths of buckets and of servers, and this is none");
  for (const auto& [name, value] : options)
    if (std::ranges::find(known->names, name) == known->names.end())
      throw_error(ErrorKind::kInvalidArgument, path,
                  "no such option among storage_options: '{}' (those of {}:// are {})", name,
                  scheme, fmt::join(known->names, ", "));
  check_cache(path, options);
}

}  // namespace

std::string BucketPath::text() const {
  return fmt::format("{}://{}{}{}", scheme, bucket, key.empty() ? "" : "/", key);
}

BucketPath BucketPath::child(std::string_view name) const {
  return {scheme, bucket, key.empty() ? std::string(name) : fmt::format("{}/{}", key, name)};
}

BucketPath parse_bucket_path(const std::string& path) {
  const auto colon = path.find("://");
  if (colon == std::string::npos)
    throw_error(ErrorKind::kInvalidArgument, path,
                "is no path of a bucket or of a server: s3://bucket/name is one");
  BucketPath parsed{scheme_of(path.substr(0, colon)), {}, {}};
  std::string_view rest = std::string_view(path).substr(colon + 3);
  const auto slash = rest.find('/');
  parsed.bucket = rest.substr(0, slash);
  if (parsed.bucket.empty())
    throw_error(ErrorKind::kInvalidArgument, path, "names no bucket: {}://bucket/name is one",
                parsed.scheme);
  // A server may have a port; "user:password@bucket" may be cut at a slash of the password.
  const bool is_server = parsed.scheme == "http" || parsed.scheme == "https";
  if (parsed.bucket.find(is_server ? '@' : ':') != std::string::npos)
    throw_error(ErrorKind::kInvalidArgument, parsed.scheme + "://...",
                "a path holds no user and no password, as it is shown and written: give them as "
                "storage_options or by the environment");
  if (slash == std::string_view::npos) return parsed;
  rest.remove_prefix(slash + 1);
  while (rest.ends_with('/')) rest.remove_suffix(1);
  parsed.key = rest;
  return parsed;
}

void set_storage_options(const std::string& path, StorageOptions options) {
  const BucketPath parsed = parse_bucket_path(path);
  const std::string_view folder = environment("CELLFEED_CACHE");
  if (options.contains(kCacheModeOption) && !folder.empty())
    options.try_emplace(std::string(kCacheOption), folder);
  check_names(BucketPath{parsed.scheme, parsed.bucket, {}}.text(), parsed.scheme, options);
  const std::scoped_lock lock(given().mutex);
  auto& of_bucket = given().of_buckets[{parsed.scheme, parsed.bucket}];
  if (of_bucket == options) return;
  of_bucket = std::move(options);
  ++given().version;
}

void add_storage_option(const std::string& path, std::string_view name, std::string value) {
  const BucketPath parsed = parse_bucket_path(path);
  StorageOptions options = storage_options_of(parsed.scheme, parsed.bucket);
  if (value.empty())
    options.erase(std::string(name));
  else
    options.insert_or_assign(std::string(name), std::move(value));
  set_storage_options(path, std::move(options));
}

SavedStorageOptions::SavedStorageOptions(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    const BucketPath parsed = parse_bucket_path(path);
    saved_[{parsed.scheme, parsed.bucket}] = storage_options_of(parsed.scheme, parsed.bucket);
  }
}

void SavedStorageOptions::restore() const {
  const std::scoped_lock lock(given().mutex);
  for (const auto& [bucket, options] : saved_) given().of_buckets[bucket] = options;
  ++given().version;
}

StorageOptions storage_options_of(std::string_view scheme, std::string_view bucket) {
  const std::scoped_lock lock(given().mutex);
  const auto found = given().of_buckets.find({std::string(scheme), std::string(bucket)});
  return found == given().of_buckets.end() ? StorageOptions() : found->second;
}

std::uint64_t storage_options_version() { return given().version; }

std::string cache_note(const Error& error) {
  if (error.kind() != ErrorKind::kCorruptData || error.path().find("://") == std::string::npos)
    return {};
  StorageOptions options;
  try {
    const BucketPath path = parse_bucket_path(error.path());
    options = storage_options_of(path.scheme, path.bucket);
  } catch (const Error&) {
    return {};  // it is none of a bucket
  }
  const auto folder = options.find(kCacheOption);
  if (folder == options.end()) return {};
  return fmt::format(
      " (read through the cache in {0}; where the object is sound, have it fetched again: "
      "`cellfeed "
      "cache clear {0}`)",
      folder->second);
}

bool parse_flag(std::string_view name, std::string_view value) {
  if (value == "true" || value == "True" || value == "1" || value == "yes") return true;
  if (value == "false" || value == "False" || value == "0" || value == "no") return false;
  throw_invalid("the storage option {} must be true or false", name);
}

}  // namespace cellfeed::cloud
