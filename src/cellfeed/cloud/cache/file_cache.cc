#include "cellfeed/cloud/cache/file_cache.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cellfeed/base/byte_size.h"
#include "cellfeed/base/error.h"
#include "cellfeed/cloud/bucket.h"
#include "cellfeed/cloud/cache/block_source.h"
#include "cellfeed/cloud/cache/growing_copy.h"
#include "cellfeed/cloud/cache/kept_copies.h"
#include "cellfeed/cloud/settings.h"
#include "cellfeed/exec/stop_scope.h"
#include "cellfeed/io/atomic_file.h"
#include "cellfeed/io/cache_warnings.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::cloud {
namespace {

constexpr std::chrono::milliseconds kCopyLook{200};
constexpr std::size_t kMostOfName = 100;
constexpr int kOpenAttempts = 5;

// The local copy, under the path of the object that it is of.
class CachedSource final : public io::ByteSource {
 public:
  CachedSource(std::string path, std::unique_ptr<io::ByteSource> copy)
      : path_(std::move(path)), copy_(std::move(copy)) {}

  const std::string& path() const override { return path_; }
  std::int64_t size() const override { return copy_->size(); }
  bool is_unchanged() const override { return copy_->is_unchanged(); }
  std::string_view backend_name() const override { return copy_->backend_name(); }
  void read(std::int64_t offset, std::span<std::byte> out) const override {
    copy_->read(offset, out);
  }
  void read_many(std::span<const io::ReadRequest> requests) const override {
    copy_->read_many(requests);
  }
  std::unique_ptr<io::PendingReads> begin_read_many(
      std::span<const io::ReadRequest> requests) const override {
    return copy_->begin_read_many(requests);
  }
  io::ReadCosts costs() const override { return copy_->costs(); }
  std::int64_t alignment() const override { return copy_->alignment(); }
  std::span<const std::byte> map() const override { return copy_->map(); }
  bool has_lost_pages() const override { return copy_->has_lost_pages(); }
  bool is_cached(std::span<const std::int64_t> offsets) const override {
    return copy_->is_cached(offsets);
  }
  void will_read(std::span<const io::ByteRange> ranges) const override { copy_->will_read(ranges); }
  void release_pages() const override { copy_->release_pages(); }

 private:
  const std::string path_;
  const std::unique_ptr<io::ByteSource> copy_;
};

std::uint64_t hash(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

struct Names {
  std::string of_object;  // what the names of all its versions begin with
  std::string copy;
};

Names names_of(const std::string& path, const ObjectVersion& version) {
  const std::string mark = version.mark();
  if (mark.empty())
    throw_error(ErrorKind::kUnsupported, path,
                "the server tells no version of it (ETag or Last-Modified), so that a copy could "
                "not be told from an old one: read it without cache_dir");
  const std::string name = path.substr(path.rfind('/') + 1);
  Names names{.of_object = fmt::format("{:016x}-", hash(path)), .copy = {}};
  names.copy =
      fmt::format("{}{:016x}-{}", names.of_object, hash(fmt::format("{} {}", version.size, mark)),
                  name.substr(name.size() - std::min(name.size(), kMostOfName)));
  return names;
}

std::optional<ContentChecksum> expected_checksum(const BucketPath& path,
                                                 const ObjectVersion& version) {
  if (path.scheme == "http" || path.scheme == "https") return std::nullopt;  // servers tell none
  return find_checksum(path, version);
}

bool is_copy_there(const io::ByteSource& remote, const io::Directory& directory,
                   const std::string& name) {
  const CopyState state = state_of_copy(directory, name, remote.size());
  if (!state.damage.empty())
    io::warn_of_cache(fmt::format("{}: {}, so that {} is copied again", directory.path_of(name),
                                  state.damage, remote.path()));
  return state.is_there;
}

// limit: negative for none.
void make_copy(const io::ByteSource& remote, const BucketPath& path, const ObjectVersion& version,
               const io::Directory& directory, const Names& names, std::int64_t limit) {
  for (int n_made = 0; !is_copy_there(remote, directory, names.copy);) {
    if (n_made == kOpenAttempts)
      throw_error(ErrorKind::kIo, remote.path(),
                  "it was copied to {} {} times, and each copy was gone or changed right behind: "
                  "keep others from writing there, raise cache_bytes, or read without cache_dir",
                  directory.path(), n_made);
    const auto lock = io::lock_unless_held(directory, "." + names.copy + ".lock");
    if (!lock) {
      exec::sleep_unless_stopped(kCopyLook);
      continue;
    }
    if (state_of_copy(directory, names.copy, remote.size()).is_there) return;
    GrowingCopy copy(io::FileTarget(directory, names.copy), GrowingCopy::kPartBytes,
                     expected_checksum(path, version));
    if (limit >= 0) make_room(directory, remote.size(), limit, remote.path());
    copy_rest(remote, copy);
    copy.publish(remote.path(), version);
    ++n_made;
    remove_other_versions(directory, names.of_object, names.copy);
  }
}

// Another process may remove a copy to make room just before it is opened.
std::unique_ptr<io::ByteSource> open_copy(const io::ByteSource& remote, const BucketPath& path,
                                          const ObjectVersion& version,
                                          const io::Directory& directory, const Names& names,
                                          std::int64_t limit, const io::LocalFileOptions& options) {
  for (int attempt = 0; attempt < kOpenAttempts; ++attempt) {
    make_copy(remote, path, version, directory, names, limit);
    try {
      return open_as(remote.path(), directory, names.copy, options);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kNotFound) throw;
    }
  }
  throw_error(ErrorKind::kNoSpace, remote.path(),
              "its copy in {} was removed {} times before it could be opened: others make room "
              "there or clear it; raise cache_bytes, or read without cache_dir",
              directory.path(), kOpenAttempts);
}

// As copies are: one that could not hold a block is an error before anything is read.
void check_limit(const io::ByteSource& remote, const io::Directory& directory, std::int64_t limit) {
  const std::int64_t least = BlockFile::least_bytes(remote.size());
  if (limit >= 0 && least > limit)
    throw_error(ErrorKind::kNoSpace, remote.path(),
                "a block of it takes {}, and {} may hold {} in all (cache_bytes): raise it, or "
                "read without cache_dir",
                format_byte_size(least), directory.path(), format_byte_size(limit));
}

std::unique_ptr<io::ByteSource> open_blocks(std::shared_ptr<const io::ByteSource> remote,
                                            const io::Directory& directory, const Names& names,
                                            std::int64_t limit,
                                            const io::LocalFileOptions& options) {
  const std::string name = std::string(kBlocksPrefix) + names.copy;
  check_limit(*remote, directory, limit);
  auto file = BlockFile::open_or_make(directory, name, remote->path(), remote->size());
  file->file().note_use();
  if (file->is_new()) remove_other_versions(directory, names.of_object, names.copy);
  auto cache = make_block_cache(std::move(remote), std::move(file), io::canonical(directory.path()),
                                limit, true);
  return make_block_source(std::move(cache), options.threads);
}

}  // namespace

std::unique_ptr<io::ByteSource> open_as(const std::string& path, const io::Directory& directory,
                                        const std::string& copy,
                                        const io::LocalFileOptions& options) {
  note_use(directory, copy);
  return std::make_unique<CachedSource>(path,
                                        io::open_local_file(directory.path_of(copy), options));
}

std::unique_ptr<io::ByteSource> cached_where_asked(std::unique_ptr<io::ByteSource> remote,
                                                   const BucketPath& path,
                                                   const ObjectVersion& version,
                                                   const io::LocalFileOptions& options) {
  const StorageOptions of_bucket = storage_options_of(path.scheme, path.bucket);
  const auto given = of_bucket.find(kCacheDirOption);
  if (given == of_bucket.end()) return remote;
  const std::string& folder = given->second;
  if (!io::is_local(folder))
    throw_error(ErrorKind::kInvalidArgument, folder, "cache_dir must be a folder of a local disk");
  io::make_directories(folder);
  const io::Directory directory(folder);
  const Names names = names_of(remote->path(), version);
  const auto given_limit = of_bucket.find(kCacheBytesOption);
  const std::int64_t limit =
      given_limit == of_bucket.end() ? -1 : parse_byte_size(given_limit->second);
  if (option(of_bucket, kCacheOption) == kCacheBlocks) {
    if (remote->size() == 0) return remote;
    return open_blocks(std::move(remote), directory, names, limit, options);
  }
  return open_copy(*remote, path, version, directory, names, limit, options);
}

}  // namespace cellfeed::cloud
