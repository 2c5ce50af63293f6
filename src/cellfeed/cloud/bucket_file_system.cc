#include "cellfeed/cloud/bucket_file_system.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/cloud/bucket.h"
#include "cellfeed/cloud/cache/file_cache.h"
#include "cellfeed/cloud/http/http_source.h"
#include "cellfeed/cloud/http/recent_objects.h"
#include "cellfeed/exec/fork_guard.h"
#include "cellfeed/exec/stop_scope.h"
#include "cellfeed/io/atomic_file.h"
#include "cellfeed/io/lock_holder.h"

namespace cellfeed::cloud {
namespace {

class BucketObject final : public HttpObject {
 public:
  BucketObject(std::string given, BucketPath path, ObjectVersion version)
      : given_(std::move(given)), path_(std::move(path)), version_(std::move(version)) {}
  const std::string& path() const override { return given_; }
  const ObjectVersion& version() const override { return version_; }
  HttpRequest request(bool fresh) const override {
    const ObjectStore& store = object_store(path_.scheme);
    HttpRequest request = store.to_read(path_, &version_);
    store.authorize(request, path_, fresh);
    return request;
  }
  void forget() const override { recent_objects().forget(path_.text()); }

 private:
  const std::string given_;
  const BucketPath path_;
  const ObjectVersion version_;
};

StagedFile::Content content_of(std::string_view text) {
  return {
      std::ssize(text), [text](std::int64_t offset, std::span<std::byte> out) {
        std::ranges::copy(
            std::as_bytes(std::span(text)).subspan(static_cast<std::size_t>(offset), out.size()),
            out.begin());
      }};
}

[[noreturn]] void throw_exists(const BucketPath& path) {
  throw_error(ErrorKind::kAlreadyExists, path.text(),
              "the target exists and is not replaced; remove it or choose another");
}

// Objects are written whole: each line that is added writes it again.
class BucketJournal final : public io::Journal {
 public:
  explicit BucketJournal(BucketPath path) : path_(std::move(path)), text_(read_object(path_)) {}
  void append(std::string_view text) override {
    text_ += text;
    write_object(path_, content_of(text_));
  }

 private:
  const BucketPath path_;
  std::string text_;
};

class BucketLock final : public io::HeldLock {
 public:
  explicit BucketLock(BucketPath path)
      : path_(std::move(path)),
        generation_(exec::fork_generation()),
        line_(io::LockHolder::this_process().line() +
              fmt::format("{:016x}\n", std::random_device()() * 0x9e3779b97f4a7c15ULL)) {
    // One that was taken is known to be.
    const exec::StopScope in_any_case({});
    if (!take() && !take_over()) throw_held({});
    // A store that does not know conditions lets both write.
    if (const std::string found = read_object(path_); found != line_)
      throw_held(io::LockHolder::parse(found));
  }
  ~BucketLock() override {
    if (generation_ != exec::fork_generation()) return;
    const exec::StopScope in_any_case({});
    try {
      if (read_object(path_) == line_) remove_object(path_);
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): whoever comes next is told of it
    }
  }
  BucketLock(const BucketLock&) = delete;
  BucketLock& operator=(const BucketLock&) = delete;

 private:
  bool take() const { return write_object(path_, content_of(line_), {.is_absent = true}); }
  // Of a holder that is dead, or has ended just now. One of several who try gets it.
  bool take_over() const {
    const auto version = look_at_object(path_);
    if (!version) return take();
    const io::LockHolder holder = io::LockHolder::parse(read_object(path_));
    if (!holder.is_dead()) throw_held(holder);
    return write_object(path_, content_of(line_), {.version = version->etag});
  }
  [[noreturn]] void throw_held(const io::LockHolder& holder) const {
    throw_error(ErrorKind::kAlreadyExists, path_.text(),
                "the directory is being written by {}; wait for it to end. A bucket has no locks "
                "that end with their holder: if it was killed, remove this object",
                holder.describe());
  }

  const BucketPath path_;
  const std::uint64_t generation_;
  const std::string line_;
};

std::unique_ptr<io::NewFile> create_object(const BucketPath& path, io::OnExisting on_existing) {
  const bool is_new = on_existing == io::OnExisting::kRefuse;
  if (is_new && look_at_object(path)) throw_exists(path);
  return std::make_unique<StagedFile>(path.text(),
                                      [path, is_new](const StagedFile::Content& content) {
                                        if (!write_object(path, content, {.is_absent = is_new}))
                                          throw_exists(path);
                                      });
}

std::string prefix_of(const BucketPath& folder) {
  return folder.key.empty() ? "" : folder.key + "/";
}

// All that is found, a part of the list at a time.
template <typename Visit>
void for_each_part(const BucketPath& bucket, ListQuery query, const Visit& visit) {
  do {
    const ObjectListing part = list_objects(bucket, query);
    visit(part);
    if (!query.token.empty() && part.next == query.token)
      throw_error(ErrorKind::kIo, bucket.text(), "the store's list of objects does not go on");
    query.token = part.next;
  } while (!query.token.empty());
}

class BucketDirectory final : public io::OpenDirectory {
 public:
  explicit BucketDirectory(const std::string& given)
      : given_(given), path_(parse_bucket_path(given)) {}

  const std::string& path() const override { return given_; }
  std::string path_of(std::string_view name) const override { return path_.child(name).text(); }
  std::vector<std::string> names() const override {
    const std::string prefix = prefix_of(path_);
    std::set<std::string> names;
    for_each_part(path_, {.prefix = prefix, .into_folders = true}, [&](const ObjectListing& part) {
      for (const ListedObject& object : part.objects)
        names.insert(object.key.substr(prefix.size()));
      for (const std::string& folder : part.folders)
        names.insert(folder.substr(prefix.size(), folder.size() - prefix.size() - 1));
    });
    names.erase("");  // the folder's own mark
    return {names.begin(), names.end()};
  }
  std::optional<std::int64_t> file_bytes(const std::string& name) const override {
    const auto version = recall_object(path_.child(name));
    return version ? std::optional(version->size) : std::nullopt;
  }
  void remove(const std::string& name) const override { remove_object(path_.child(name)); }
  std::unique_ptr<io::NewFile> create(const std::string& name,
                                      io::OnExisting on_existing) const override {
    return create_object(path_.child(name), on_existing);
  }
  std::unique_ptr<io::Journal> append_to(const std::string& name) const override {
    return std::make_unique<BucketJournal>(path_.child(name));
  }
  std::unique_ptr<io::HeldLock> lock(const std::string& name) const override {
    return std::make_unique<BucketLock>(path_.child(name + io::DirectoryLock::kHeldSuffix));
  }
  // Uploads that were not ended are no objects.
  void remove_leftovers(std::string_view) const override {}
  io::UnfinishedUploads remove_unfinished_uploads(
      const std::function<bool(std::string_view)>& is_ours) const override {
    return object_store(path_.scheme).remove_unfinished_uploads(path_, is_ours);
  }

 private:
  const std::string given_;
  const BucketPath path_;
};

class BucketFileSystem final : public io::FileSystem {
 public:
  io::PathStatus status(const std::string& given) const override {
    const BucketPath path = parse_bucket_path(given);
    if (!path.key.empty() && !given.ends_with('/') && !recent_objects().is_folder(path.text()))
      if (const auto version = recall_object(path)) return status_of_object(path.text(), *version);
    if (!holds_objects(path)) return {};
    return status_of_folder(path.text());
  }
  std::unique_ptr<io::ByteSource> open(const std::string& given,
                                       const io::LocalFileOptions& options) const override {
    const BucketPath path = parse_bucket_path(given);
    auto version = path.key.empty() ? std::nullopt : recall_object(path);
    if (!version) {
      list_objects(path,
                   {.prefix = path.key, .max_keys = 1});  // throws where there is no such bucket
      throw_error(ErrorKind::kNotFound, given, "there is no such object in the bucket");
    }
    auto source = make_http_source(std::make_shared<const BucketObject>(given, path, *version),
                                   backend_name(path.scheme));
    return cached_where_asked(std::move(source), path, *version, options);
  }
  std::shared_ptr<const io::OpenDirectory> open_directory(const std::string& given) const override {
    if (!status(given).is_directory())
      throw_error(ErrorKind::kNotFound, given, "there is no such folder in the bucket");
    return std::make_shared<const BucketDirectory>(given);
  }
  // An object whose name ends in a slash stands for a folder that holds nothing yet.
  void make_directories(const std::string& given) const override {
    const BucketPath path = parse_bucket_path(given);
    for (auto slash = path.key.find('/');; slash = path.key.find('/', slash + 1)) {
      const BucketPath part{path.scheme, path.bucket, path.key.substr(0, slash)};
      if (!part.key.empty() && look_at_object(part))
        throw_error(ErrorKind::kAlreadyExists, part.text(),
                    "is an object where a folder is to be made");
      if (slash == std::string::npos) break;
    }
    if (path.key.empty() || holds_objects(path)) return;
    write_object({path.scheme, path.bucket, path.key + "/"}, content_of(""));
  }
  void remove(const std::string& given) const override {
    const BucketPath path = parse_bucket_path(given);
    if (path.key.empty()) refuse_bucket(given);
    remove_object(path);
    remove_object({path.scheme, path.bucket, path.key + "/"});
  }
  std::string canonical(const std::string& given) const override {
    return parse_bucket_path(given).text();
  }
  // A part of the list tells of many, most stores of 1,000.
  void visit_files(const std::string& given, const io::FileVisitor& visit) const override {
    const BucketPath path = parse_bucket_path(given);
    const std::string prefix = prefix_of(path);
    for_each_part(path, {.prefix = prefix}, [&](const ObjectListing& part) {
      for (const ListedObject& object : part.objects) {
        if (object.key.ends_with('/')) continue;  // a folder's mark
        const BucketPath of_object{path.scheme, path.bucket, object.key};
        visit(std::string_view(object.key).substr(prefix.size()),
              status_of_object(of_object.text(), object.version));
      }
    });
  }

 private:
  static std::string_view backend_name(std::string_view scheme) {
    return scheme == "s3" ? "s3" : scheme == "gs" ? "gs" : "az";
  }
  [[noreturn]] static void refuse_bucket(const std::string& given) {
    throw_error(ErrorKind::kUnsupported, given, "a whole bucket is not removed here");
  }
};

}  // namespace

std::shared_ptr<const io::FileSystem> make_bucket_file_system() {
  return std::make_shared<const BucketFileSystem>();
}

}  // namespace cellfeed::cloud
