#include "cellfeed/cloud/storage_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "cellfeed/base/byte_size.h"
#include "cellfeed/base/error.h"
#include "cellfeed/base/fork_safe_mutex.h"
#include "cellfeed/io/cache_dir.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::cloud {
namespace {

struct SchemeOptions {
  std::string_view scheme;
  std::vector<std::string_view> names;
};

// As fsspec's file systems name them.
const std::vector<SchemeOptions>& known_options() {
  static const auto* all = new std::vector<SchemeOptions>{
      {"s3", {"anon", "endpoint_url", "key", "profile", "region", "role_arn", "secret", "token"}},
      {"gs", {"anon", "endpoint_url", "token"}},
      {"az",
       {"account_key", "account_name", "anon", "client_id", "client_secret", "connection_string",
        "endpoint_url", "sas_token", "tenant_id"}},
      {"http", {"headers"}},
      {"https", {"headers"}}};
  return *all;
}

// Those of every scheme.
constexpr std::array kCacheOptions = {kCacheOption, kCacheBytesOption, kCacheDirOption,
                                      kOfflineOption};

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
  const auto cache = options.find(kCacheOption);
  if (cache != options.end() && cache->second != kCacheFiles && cache->second != kCacheBlocks)
    throw_error(ErrorKind::kInvalidArgument, path,
                "the storage option cache must be files (whole copies) or blocks (what is read), "
                "not '{}'; rows are asked for when files are opened",
                cache->second);
  if (cache != options.end() && !options.contains(kCacheDirOption))
    throw_error(ErrorKind::kInvalidArgument, path,
                "the storage option cache needs a folder: cache_dir, or CELLFEED_CACHE or HOME in "
                "the environment");
  if (const auto offline = options.find(kOfflineOption); offline != options.end())
    parse_flag(kOfflineOption, offline->second);
  const auto limit = options.find(kCacheBytesOption);
  if (limit == options.end()) return;
  parse_byte_size(limit->second);
  if (!options.contains(kCacheDirOption))
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
    if (std::ranges::find(known->names, name) == known->names.end() &&
        std::ranges::find(kCacheOptions, name) == kCacheOptions.end())
      throw_error(ErrorKind::kInvalidArgument, path,
                  "no such option among storage_options: '{}' (those of {}:// are {}, {})", name,
                  scheme, fmt::join(known->names, ", "), fmt::join(kCacheOptions, ", "));
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
  if (options.contains(kCacheOption) && !options.contains(kCacheDirOption))
    if (std::string folder = io::chosen_cache_dir(""); !folder.empty())
      options.emplace(kCacheDirOption, std::move(folder));
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

void cache_in(const std::string& dir, const std::vector<std::string>& paths, std::string_view what,
              const std::string& max_bytes) {
  for (const std::string& path : paths) {
    if (io::is_local(path)) continue;
    add_storage_option(path, kCacheDirOption, dir);
    add_storage_option(path, kCacheOption, std::string(what));
    if (!max_bytes.empty()) add_storage_option(path, kCacheBytesOption, max_bytes);
  }
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
  const bool is_missing = error.kind() == ErrorKind::kNotFound;
  if ((error.kind() != ErrorKind::kCorruptData && !is_missing) ||
      error.path().find("://") == std::string::npos)
    return {};
  StorageOptions options;
  try {
    const BucketPath path = parse_bucket_path(error.path());
    options = storage_options_of(path.scheme, path.bucket);
    if (is_missing && is_offline(path))
      return fmt::format(
          " (offline: only files that are cached whole in {} are read; `cellfeed cache fetch` "
          "caches more where there is a network)",
          cache_dir_of(path));
    if (is_missing) return {};
  } catch (const Error&) {
    return {};  // it is none of a bucket
  }
  const auto folder = options.find(kCacheDirOption);
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
  throw_invalid("{} must be true or false", name);
}

bool is_offline(const BucketPath& path) {
  const StorageOptions options = storage_options_of(path.scheme, path.bucket);
  if (const auto given = options.find(kOfflineOption); given != options.end())
    return parse_flag(kOfflineOption, given->second);
  const char* const variable = std::getenv("CELLFEED_OFFLINE");
  return variable != nullptr && *variable != '\0' && parse_flag("CELLFEED_OFFLINE", variable);
}

std::string cache_dir_of(const BucketPath& path) {
  const StorageOptions options = storage_options_of(path.scheme, path.bucket);
  const auto given = options.find(kCacheDirOption);
  return io::chosen_cache_dir(given == options.end() ? "" : given->second);
}

}  // namespace cellfeed::cloud
