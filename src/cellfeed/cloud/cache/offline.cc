#include "cellfeed/cloud/cache/offline.h"

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/base/fork_safe_mutex.h"
#include "cellfeed/cloud/cache/file_cache.h"
#include "cellfeed/cloud/cache/folder_listing.h"
#include "cellfeed/cloud/cache/kept_copies.h"
#include "cellfeed/cloud/http/http_source.h"
#include "cellfeed/cloud/storage_options.h"
#include "cellfeed/io/look_anew.h"

namespace cellfeed::cloud {
namespace {

// What the cache in a folder holds.
struct CacheContent {
  std::map<std::string, KeptCopy> copies;  // by the path of the object
  std::vector<FolderListing> listings;
};

// Contents of folders, looked at once until somebody opens cells again. Thread-safe.
class SeenCaches {
 public:
  std::shared_ptr<const CacheContent> in(const std::string& folder) {
    const std::scoped_lock lock(mutex_);
    auto& seen = of_folders_[folder];
    if (!seen) seen = look(folder);
    return seen;
  }
  void forget() {
    const std::scoped_lock lock(mutex_);
    of_folders_.clear();
  }

 private:
  static std::shared_ptr<const CacheContent> look(const std::string& folder) {
    auto content = std::make_shared<CacheContent>();
    if (folder.empty() || !io::is_directory(folder)) return content;
    const io::Directory directory(folder);
    // Those used longest ago come first.
    for (KeptCopy& copy : kept_copies(directory))
      if (!copy.is_blocks && !copy.of_object.empty())
        content->copies.insert_or_assign(parse_bucket_path(copy.of_object).text(), std::move(copy));
    content->listings = read_listings(directory);
    return content;
  }

  ForkSafeMutex mutex_;  // guards of_folders_
  std::map<std::string, std::shared_ptr<const CacheContent>> of_folders_;
};

SeenCaches& seen_caches() {
  static auto* all = new SeenCaches;
  return *all;
}

[[noreturn]] void refuse_to_write(const std::string& path) {
  throw_error(ErrorKind::kUnsupported, path, "nothing is written there while it is offline");
}

// A path, and what is cached at it and below it.
class CachedPath {
 public:
  explicit CachedPath(const std::string& given)
      : path_(parse_bucket_path(given)),
        folder_(cache_dir_of(path_)),
        content_(seen_caches().in(folder_)) {}

  const BucketPath& path() const { return path_; }
  const std::string& folder() const { return folder_; }
  // Null where it is not cached. Throws kIo where its folder held it, but the cache does not.
  const KeptCopy* copy_of(const BucketPath& path) const {
    const std::string text = path.text();
    const auto found = content_->copies.find(text);
    if (found != content_->copies.end()) return &found->second;
    if (const auto listing = listing_over(text);
        listing && listing->names.contains(relative(text, *listing)))
      throw_error(ErrorKind::kIo, text,
                  "is not cached in {}, and the store is not asked while it is offline: `cellfeed "
                  "cache fetch` copies it where there is a network",
                  folder_);
    return nullptr;
  }
  // Names from this path of all files below it, or of those in it where no more is known. Empty
  // where it is no folder. Throws kIo where that is not known.
  std::vector<std::string> names_below() const {
    const std::string text = path_.text();
    std::vector<std::string> names;
    const FolderListing* listing = listing_over(text);
    if (listing == nullptr) {
      const auto below = content_->copies.lower_bound(text + "/");
      if (below != content_->copies.end() && below->first.starts_with(text + "/"))
        throw_error(ErrorKind::kIo, text,
                    "files of this folder are cached in {}, but not what else it holds: `cellfeed "
                    "cache fetch` copies all of it where there is a network",
                    folder_);
      return names;
    }
    const std::string inside = relative(text, *listing);
    const std::string prefix = inside.empty() ? "" : inside + "/";
    for (auto at = listing->names.lower_bound(prefix);
         at != listing->names.end() && at->starts_with(prefix); ++at)
      names.push_back(at->substr(prefix.size()));
    return names;
  }

 private:
  static std::string relative(const std::string& text, const FolderListing& listing) {
    return text == listing.folder ? "" : text.substr(listing.folder.size() + 1);
  }
  // The listing that tells what is at a path; null where none does.
  const FolderListing* listing_over(const std::string& text) const {
    const FolderListing* nearest = nullptr;
    for (const FolderListing& listing : content_->listings) {
      if (text != listing.folder) {
        if (!text.starts_with(listing.folder + "/")) continue;
        const bool is_inside = relative(text, listing).find('/') == std::string::npos;
        if (!listing.is_deep && !is_inside) continue;
      }
      if (nearest == nullptr || listing.folder.size() > nearest->folder.size()) nearest = &listing;
    }
    return nearest;
  }

  const BucketPath path_;
  const std::string folder_;
  const std::shared_ptr<const CacheContent> content_;
};

class CachedDirectory final : public io::OpenDirectory {
 public:
  explicit CachedDirectory(std::string given) : given_(std::move(given)), cached_(given_) {}

  const std::string& path() const override { return given_; }
  std::string path_of(std::string_view name) const override {
    return cached_.path().child(name).text();
  }
  std::vector<std::string> names() const override {
    std::set<std::string> names;
    for (const std::string& name : cached_.names_below())
      names.insert(name.substr(0, name.find('/')));
    return {names.begin(), names.end()};
  }
  std::optional<std::int64_t> file_bytes(const std::string& name) const override {
    const KeptCopy* copy = cached_.copy_of(cached_.path().child(name));
    return copy == nullptr ? std::nullopt : std::optional(copy->bytes);
  }
  void remove(const std::string&) const override { refuse_to_write(given_); }
  std::unique_ptr<io::NewFile> create(const std::string&, io::OnExisting) const override {
    refuse_to_write(given_);
  }
  std::unique_ptr<io::Journal> append_to(const std::string&) const override {
    refuse_to_write(given_);
  }
  std::unique_ptr<io::HeldLock> lock(const std::string&) const override { refuse_to_write(given_); }
  void remove_leftovers(std::string_view) const override {}

 private:
  const std::string given_;
  const CachedPath cached_;
};

class CachedFiles final : public io::FileSystem {
 public:
  io::PathStatus status(const std::string& given) const override {
    const CachedPath cached(given);
    const std::string text = cached.path().text();
    if (const KeptCopy* copy = cached.copy_of(cached.path()))
      return status_of_object(text, copy->version);
    if (cached.names_below().empty()) return {};
    return status_of_folder(text);
  }
  std::unique_ptr<io::ByteSource> open(const std::string& given,
                                       const io::LocalFileOptions& options) const override {
    const CachedPath cached(given);
    const KeptCopy* copy = cached.copy_of(cached.path());
    if (copy == nullptr) throw_error(ErrorKind::kNotFound, given, "no copy is cached");
    const io::Directory directory(cached.folder());
    const CopyState state = state_of_copy(directory, copy->name, copy->version.size);
    if (!state.is_there)
      throw_error(ErrorKind::kCorruptData, given,
                  "its copy {} is damaged ({}), and the store is not asked while it is offline; "
                  "`cellfeed cache fetch` copies it again where there is a network",
                  directory.path_of(copy->name), state.damage.empty() ? "gone" : state.damage);
    return open_as(given, directory, copy->name, options);
  }
  std::shared_ptr<const io::OpenDirectory> open_directory(const std::string& given) const override {
    if (CachedPath(given).names_below().empty())
      throw_error(ErrorKind::kNotFound, given, "nothing in it is cached");
    return std::make_shared<const CachedDirectory>(given);
  }
  void visit_files(const std::string& given, const io::FileVisitor& visit) const override {
    const CachedPath cached(given);
    for (const std::string& name : cached.names_below()) {
      const BucketPath path = cached.path().child(name);
      if (const KeptCopy* copy = cached.copy_of(path))
        visit(name, status_of_object(path.text(), copy->version));
    }
  }
  void make_directories(const std::string& given) const override { refuse_to_write(given); }
  void remove(const std::string& given) const override { refuse_to_write(given); }
  std::string canonical(const std::string& given) const override {
    return parse_bucket_path(given).text();
  }
  void require_writable_folder(const std::string& given) const override { refuse_to_write(given); }
};

class RemoteOrCached final : public io::FileSystem {
 public:
  explicit RemoteOrCached(std::shared_ptr<const io::FileSystem> remote)
      : remote_(std::move(remote)) {
    io::on_look_anew([] { seen_caches().forget(); });
  }
  io::PathStatus status(const std::string& path) const override { return of(path).status(path); }
  std::unique_ptr<io::ByteSource> open(const std::string& path,
                                       const io::LocalFileOptions& options) const override {
    return of(path).open(path, options);
  }
  std::shared_ptr<const io::OpenDirectory> open_directory(const std::string& path) const override {
    return of(path).open_directory(path);
  }
  void visit_files(const std::string& path, const io::FileVisitor& visit) const override {
    of(path).visit_files(path, visit);
  }
  void make_directories(const std::string& path) const override { of(path).make_directories(path); }
  io::NameKind name_kind(const std::string& path) const override {
    return of(path).name_kind(path);
  }
  void remove(const std::string& path) const override { of(path).remove(path); }
  std::string canonical(const std::string& path) const override { return of(path).canonical(path); }
  void require_writable_folder(const std::string& path) const override {
    of(path).require_writable_folder(path);
  }

 private:
  const io::FileSystem& of(const std::string& path) const {
    if (is_offline(parse_bucket_path(path))) return cached_;
    return *remote_;
  }

  const std::shared_ptr<const io::FileSystem> remote_;
  const CachedFiles cached_;
};

}  // namespace

std::shared_ptr<const io::FileSystem> with_offline(std::shared_ptr<const io::FileSystem> remote) {
  return std::make_shared<const RemoteOrCached>(std::move(remote));
}

}  // namespace cellfeed::cloud
