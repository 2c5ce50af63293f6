#include "cellfeed/cloud/cache/offline.h"

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/base/fork_safe_mutex.h"
#include "cellfeed/cloud/cache/file_cache.h"
#include "cellfeed/cloud/cache/kept_copies.h"
#include "cellfeed/cloud/http/http_source.h"
#include "cellfeed/cloud/storage_options.h"
#include "cellfeed/io/look_anew.h"

namespace cellfeed::cloud {
namespace {

// Path of an object -> its copy.
using CopiesByPath = std::map<std::string, KeptCopy>;

// What folders hold, listed once until somebody opens cells again. Thread-safe.
class ListedCopies {
 public:
  std::shared_ptr<const CopiesByPath> in(const std::string& folder) {
    const std::scoped_lock lock(mutex_);
    auto& listed = of_folders_[folder];
    if (!listed) listed = list(folder);
    return listed;
  }
  void forget() {
    const std::scoped_lock lock(mutex_);
    of_folders_.clear();
  }

 private:
  static std::shared_ptr<const CopiesByPath> list(const std::string& folder) {
    auto copies = std::make_shared<CopiesByPath>();
    if (folder.empty() || !io::is_directory(folder)) return copies;
    // Those used longest ago come first.
    for (KeptCopy& copy : kept_copies(io::Directory(folder)))
      if (!copy.is_blocks && !copy.of_object.empty())
        copies->insert_or_assign(parse_bucket_path(copy.of_object).text(), std::move(copy));
    return copies;
  }

  ForkSafeMutex mutex_;  // guards of_folders_
  std::map<std::string, std::shared_ptr<const CopiesByPath>> of_folders_;
};

ListedCopies& listed_copies() {
  static auto* all = new ListedCopies;
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
        copies_(listed_copies().in(folder_)) {}

  const BucketPath& path() const { return path_; }
  const std::string& folder() const { return folder_; }
  // Null where it is not cached.
  const KeptCopy* copy_of(const BucketPath& path) const {
    const auto found = copies_->find(path.text());
    return found == copies_->end() ? nullptr : &found->second;
  }
  // name: from this path.
  void for_each_below(
      const std::function<void(std::string_view name, const KeptCopy& copy)>& visit) const {
    const std::string prefix = path_.text() + "/";
    for (auto at = copies_->lower_bound(prefix);
         at != copies_->end() && at->first.starts_with(prefix); ++at)
      visit(std::string_view(at->first).substr(prefix.size()), at->second);
  }
  bool has_some_below() const {
    bool has_some = false;
    for_each_below([&](std::string_view, const KeptCopy&) { has_some = true; });
    return has_some;
  }

 private:
  const BucketPath path_;
  const std::string folder_;
  const std::shared_ptr<const CopiesByPath> copies_;
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
    cached_.for_each_below([&](std::string_view name, const KeptCopy&) {
      names.emplace(name.substr(0, name.find('/')));
    });
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
    if (!cached.has_some_below()) return {};
    return {.kind = io::PathKind::kDirectory, .device = 1, .inode = std::hash<std::string>()(text)};
  }
  std::unique_ptr<io::ByteSource> open(const std::string& given,
                                       const io::LocalFileOptions& options) const override {
    const CachedPath cached(given);
    const KeptCopy* copy = cached.copy_of(cached.path());
    if (copy == nullptr) throw_error(ErrorKind::kNotFound, given, "no copy of it is cached");
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
    if (!CachedPath(given).has_some_below())
      throw_error(ErrorKind::kNotFound, given, "nothing in it is cached");
    return std::make_shared<const CachedDirectory>(given);
  }
  void visit_files(const std::string& given, const io::FileVisitor& visit) const override {
    const CachedPath cached(given);
    cached.for_each_below([&](std::string_view name, const KeptCopy& copy) {
      visit(name, status_of_object(cached.path().child(name).text(), copy.version));
    });
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
    io::on_look_anew([] { listed_copies().forget(); });
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
