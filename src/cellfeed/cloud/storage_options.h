// StorageOptions: how to reach a bucket, where the environment does not say it. They are of a
// bucket and of this process and those it forks; never shown, and never written. Thread-safe.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cellfeed {
class Error;
}

namespace cellfeed::cloud {

using StorageOptions = std::map<std::string, std::string, std::less<>>;
// A local folder for whole copies of what is read, or the blocks of it.
inline constexpr std::string_view kCacheDirOption = "cache_dir";
// What is cached there: "files", whole copies, where it is not given; or "blocks". With it and
// without a folder, the folder is io::chosen_cache_dir().
inline constexpr std::string_view kCacheOption = "cache";
inline constexpr std::string_view kCacheFiles = "files";
inline constexpr std::string_view kCacheBlocks = "blocks";
// "true": objects are read from the cache alone. Without it, CELLFEED_OFFLINE in the environment
// decides.
inline constexpr std::string_view kOfflineOption = "offline";
// What all copies in that folder may hold: a size as byte_size.h reads it; without it, all they do.
inline constexpr std::string_view kCacheBytesOption = "cache_bytes";

// A path of a bucket, "s3://bucket/folder/name"; of Azure, a bucket is "container" or
// "container@account.blob.core.windows.net".
struct BucketPath {
  std::string scheme;  // "gs" where "gcs" is written, "az" where "abfs" is
  std::string bucket;
  std::string key;  // without a slash at either end; empty: the bucket itself

  std::string text() const;
  BucketPath child(std::string_view name) const;
};
// Throws kInvalidArgument where it names no bucket.
BucketPath parse_bucket_path(const std::string& path);

// For the bucket of this path (of an http path, its server), in place of those given before. The
// options that a scheme knows are listed where one is not among them: kInvalidArgument.
void set_storage_options(const std::string& path, StorageOptions options);
// One more beside those; an empty value takes it away.
void add_storage_option(const std::string& path, std::string_view name, std::string value);
// Has files in buckets and on servers cached in this folder; local paths are left as they are.
// what: kCacheFiles or kCacheBlocks. max_bytes: as of kCacheBytesOption; empty for no bound.
void cache_in(const std::string& dir, const std::vector<std::string>& paths,
              std::string_view what = kCacheFiles, const std::string& max_bytes = {});
StorageOptions storage_options_of(std::string_view scheme, std::string_view bucket);
// Those of the buckets of some paths as they are when it is made, to be put back.
class SavedStorageOptions {
 public:
  // Throws what parse_bucket_path does.
  explicit SavedStorageOptions(const std::vector<std::string>& paths);
  void restore() const;

 private:
  std::map<std::pair<std::string, std::string>, StorageOptions> saved_;
};
// How often options were set: whoever keeps a connection asks whether it is of the present ones.
std::uint64_t storage_options_version();

// Whether objects of this bucket are read from the cache alone. Throws kInvalidArgument where
// CELLFEED_OFFLINE is no flag.
bool is_offline(const BucketPath& path);
// The folder of its cache, also where nothing is cached yet; empty where there is none.
std::string cache_dir_of(const BucketPath& path);

// What an error about an object is to say of the cache: that the copy may be damaged, or that the
// store was not asked. Else empty.
std::string cache_note(const Error& error);

// "true", "1", "yes"; "false", "0", "no". Throws kInvalidArgument for others.
bool parse_flag(std::string_view name, std::string_view value);

}  // namespace cellfeed::cloud
