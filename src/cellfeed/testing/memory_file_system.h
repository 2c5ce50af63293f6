// MemoryFileSystem: files in memory, as a store of objects holds them: no map(), no descriptors, no
// links; directories are there where something lies in them, or where they were made. Thread-safe.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::testing {

class MemoryFileSystem final : public io::FileSystem {
 public:
  using Content = std::shared_ptr<const std::vector<std::byte>>;

  // For tests: as another program would.
  void put(const std::string& path, std::vector<std::byte> bytes) const {
    store_->put(path, std::make_shared<const std::vector<std::byte>>(std::move(bytes)));
  }
  Content content(const std::string& path) const { return store_->find(path); }
  std::vector<std::string> paths() const { return store_->paths(); }
  // Calls that read, those of read_many counted once.
  std::int64_t round_trips() const { return store_->round_trips.load(); }
  // What its sources say of themselves.
  void set_in_flight_bytes(std::int64_t bytes) const { store_->in_flight_bytes = bytes; }

  io::PathStatus status(const std::string& path) const override { return store_->status(path); }
  std::unique_ptr<io::ByteSource> open(const std::string& path,
                                       const io::LocalFileOptions&) const override {
    Content content = store_->find(path);
    if (!content) throw_error(ErrorKind::kNotFound, path, "there is no such file");
    return std::make_unique<Source>(path, std::move(content), store_);
  }
  std::shared_ptr<const io::OpenDirectory> open_directory(const std::string& path) const override {
    if (!store_->status(path).is_directory())
      throw_error(ErrorKind::kNotFound, path, "there is no such directory");
    return std::make_shared<const OpenedDirectory>(path, store_);
  }
  void make_directories(const std::string& path) const override {
    if (store_->status(path).is_file())
      throw_error(ErrorKind::kAlreadyExists, path, "is a file where a directory is to be made");
    store_->make_directory(path);
  }
  void remove(const std::string& path) const override { store_->remove(path); }
  void remove_all(const std::string& path) const { store_->remove_below(path); }
  std::string canonical(const std::string& path) const override { return without_slash(path); }

 private:
  static std::string without_slash(std::string path) {
    while (path.ends_with('/') && !path.ends_with("://")) path.pop_back();
    return path;
  }

  struct Entry {
    Content content;
    std::uint64_t number = 0;
  };

  struct Store {
    std::atomic<std::int64_t> round_trips{0};
    std::atomic<std::int64_t> in_flight_bytes{io::ReadCosts{}.in_flight_bytes};

    void put(const std::string& path, Content content) {
      const std::scoped_lock lock(mutex);
      files[path] = {std::move(content), ++last_number};
    }
    Content find(const std::string& path) const {
      const std::scoped_lock lock(mutex);
      const auto found = files.find(path);
      return found == files.end() ? nullptr : found->second.content;
    }
    std::vector<std::string> paths() const {
      const std::scoped_lock lock(mutex);
      std::vector<std::string> all;
      for (const auto& [path, entry] : files) all.push_back(path);
      return all;
    }
    io::PathStatus status(const std::string& given) const {
      const std::string path = without_slash(given);
      const std::scoped_lock lock(mutex);
      if (const auto found = files.find(path); found != files.end())
        return {.kind = io::PathKind::kFile,
                .size = std::ssize(*found->second.content),
                .modified_ns = static_cast<std::int64_t>(found->second.number),
                .changed_ns = static_cast<std::int64_t>(found->second.number),
                .device = 1,
                .inode = found->second.number};
      const auto below = files.lower_bound(path + "/");
      const bool holds_files = below != files.end() && below->first.starts_with(path + "/");
      const auto made = directories.find(path);
      const auto made_below = directories.lower_bound(path + "/");
      if (!holds_files && made == directories.end() &&
          (made_below == directories.end() || !made_below->starts_with(path + "/")))
        return {};
      return {
          .kind = io::PathKind::kDirectory, .device = 2, .inode = std::hash<std::string>()(path)};
    }
    void make_directory(const std::string& path) {
      const std::scoped_lock lock(mutex);
      directories.insert(without_slash(path));
    }
    void remove(const std::string& path) {
      const std::scoped_lock lock(mutex);
      files.erase(path);
      directories.erase(without_slash(path));
    }
    void remove_below(const std::string& path) {
      remove(path);
      const std::scoped_lock lock(mutex);
      const std::string prefix = without_slash(path) + "/";
      std::erase_if(files, [&](const auto& file) { return file.first.starts_with(prefix); });
      std::erase_if(directories, [&](const auto& name) { return name.starts_with(prefix); });
    }
    std::vector<std::string> names_in(const std::string& directory) const {
      const std::string prefix = without_slash(directory) + "/";
      std::set<std::string> names;
      const auto add = [&](const std::string& path) {
        if (path.starts_with(prefix))
          names.insert(path.substr(prefix.size(), path.find('/', prefix.size()) - prefix.size()));
      };
      const std::scoped_lock lock(mutex);
      for (const auto& [path, entry] : files) add(path);
      for (const std::string& path : directories) add(path);
      return {names.begin(), names.end()};
    }
    // False where it is there and is not to be replaced.
    bool publish(const std::string& path, Content content, io::OnExisting on_existing) {
      const std::scoped_lock lock(mutex);
      if (on_existing == io::OnExisting::kRefuse && files.contains(path)) return false;
      files[path] = {std::move(content), ++last_number};
      return true;
    }
    void append(const std::string& path, std::string_view text) {
      const std::scoped_lock lock(mutex);
      const auto found = files.find(path);
      if (found == files.end()) throw_error(ErrorKind::kNotFound, path, "there is no such file");
      auto longer = std::make_shared<std::vector<std::byte>>(*found->second.content);
      const auto bytes = std::as_bytes(std::span(text));
      longer->insert(longer->end(), bytes.begin(), bytes.end());
      found->second.content = std::move(longer);
    }
    bool take_lock(const std::string& path) {
      const std::scoped_lock lock(mutex);
      return locks.insert(path).second;
    }
    void free_lock(const std::string& path) {
      const std::scoped_lock lock(mutex);
      locks.erase(path);
    }

    mutable std::mutex mutex;  // guards what follows
    std::map<std::string, Entry> files;
    std::set<std::string> directories;
    std::set<std::string> locks;
    std::uint64_t last_number = 0;
  };

  class Source final : public io::ByteSource {
   public:
    Source(std::string path, Content content, std::shared_ptr<Store> store)
        : path_(std::move(path)), content_(std::move(content)), store_(std::move(store)) {}
    const std::string& path() const override { return path_; }
    std::int64_t size() const override { return std::ssize(*content_); }
    bool is_unchanged() const override { return store_->find(path_) == content_; }
    std::string_view backend_name() const override { return "memory"; }
    io::ReadCosts costs() const override { return {.in_flight_bytes = store_->in_flight_bytes}; }
    void read(std::int64_t offset, std::span<std::byte> out) const override {
      io::check_range(*this, offset, std::ssize(out));
      ++store_->round_trips;
      copy(offset, out);
    }
    void read_many(std::span<const io::ReadRequest> requests) const override {
      io::check_requests(*this, requests);
      if (!requests.empty()) ++store_->round_trips;
      for (const io::ReadRequest& request : requests) copy(request.offset, request.out);
    }

   private:
    void copy(std::int64_t offset, std::span<std::byte> out) const {
      if (!out.empty()) std::memcpy(out.data(), content_->data() + offset, out.size());
    }

    const std::string path_;
    const Content content_;
    const std::shared_ptr<Store> store_;
  };

  class Written final : public io::NewFile {
   public:
    Written(std::string path, io::OnExisting on_existing, std::shared_ptr<Store> store)
        : path_(std::move(path)), on_existing_(on_existing), store_(std::move(store)) {
      if (on_existing_ == io::OnExisting::kRefuse && store_->find(path_)) throw_exists();
    }
    const std::string& path() const override { return path_; }
    const std::string& temp_path() const override { return path_; }
    bool is_open() const override { return !is_published_; }
    void write(std::int64_t offset, std::span<const std::byte> bytes) override {
      const auto end = static_cast<std::size_t>(offset) + bytes.size();
      if (bytes_.size() < end) bytes_.resize(end);
      std::ranges::copy(bytes, bytes_.begin() + offset);
    }
    void publish() override {
      if (!store_->publish(path_, std::make_shared<const std::vector<std::byte>>(bytes_),
                           on_existing_))
        throw_exists();
      is_published_ = true;
    }

   private:
    [[noreturn]] void throw_exists() const {
      throw_error(ErrorKind::kAlreadyExists, path_,
                  "the target exists and is not replaced; remove it or choose another");
    }

    const std::string path_;
    const io::OnExisting on_existing_;
    const std::shared_ptr<Store> store_;
    std::vector<std::byte> bytes_;
    bool is_published_ = false;
  };

  class Lines final : public io::Journal {
   public:
    Lines(std::string path, std::shared_ptr<Store> store)
        : path_(std::move(path)), store_(std::move(store)) {
      append("");
    }
    void append(std::string_view text) override { store_->append(path_, text); }

   private:
    const std::string path_;
    const std::shared_ptr<Store> store_;
  };

  class Lock final : public io::HeldLock {
   public:
    Lock(std::string path, std::shared_ptr<Store> store)
        : path_(std::move(path)), store_(std::move(store)) {
      if (!store_->take_lock(path_))
        throw_error(ErrorKind::kAlreadyExists, path_,
                    "the directory is being written by another; wait for it to end");
    }
    ~Lock() override { store_->free_lock(path_); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    const std::string path_;
    const std::shared_ptr<Store> store_;
  };

  class OpenedDirectory final : public io::OpenDirectory {
   public:
    OpenedDirectory(std::string path, std::shared_ptr<Store> store)
        : path_(std::move(path)), store_(std::move(store)) {}
    const std::string& path() const override { return path_; }
    std::string path_of(std::string_view name) const override {
      return without_slash(path_) + "/" + std::string(name);
    }
    std::vector<std::string> names() const override { return store_->names_in(path_); }
    std::optional<std::int64_t> file_bytes(const std::string& name) const override {
      const Content content = store_->find(path_of(name));
      return content ? std::optional<std::int64_t>(std::ssize(*content)) : std::nullopt;
    }
    void remove(const std::string& name) const override { store_->remove(path_of(name)); }
    std::unique_ptr<io::NewFile> create(const std::string& name,
                                        io::OnExisting on_existing) const override {
      return std::make_unique<Written>(path_of(name), on_existing, store_);
    }
    std::unique_ptr<io::Journal> append_to(const std::string& name) const override {
      return std::make_unique<Lines>(path_of(name), store_);
    }
    std::unique_ptr<io::HeldLock> lock(const std::string& name) const override {
      return std::make_unique<Lock>(path_of(name), store_);
    }
    void remove_leftovers(std::string_view) const override {}  // a dead writer leaves nothing

   private:
    const std::string path_;
    const std::shared_ptr<Store> store_;
  };

  const std::shared_ptr<Store> store_ = std::make_shared<Store>();
};

using SourceDouble =
    std::function<std::unique_ptr<io::ByteSource>(std::unique_ptr<io::ByteSource> source)>;

// A directory in memory, of a scheme of its own. double: of its sources, where there is to be one.
class MemoryPlace {
 public:
  explicit MemoryPlace(const SourceDouble& make_double = nullptr);

  const std::string& path() const { return path_; }
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }
  const MemoryFileSystem& files() const { return *files_; }
  // A copy of a local file under its own name. Returns its path.
  std::string take(const std::string& local) const {
    const auto source = io::open_file(local);
    std::vector<std::byte> bytes(static_cast<std::size_t>(source->size()));
    source->read(0, bytes);
    const std::string target = file(local.substr(local.rfind('/') + 1));
    files_->put(target, std::move(bytes));
    return target;
  }

 private:
  static std::string next_scheme() {
    static std::atomic<int> last{0};
    return "memory" + std::to_string(++last);
  }

  const std::string scheme_ = next_scheme();
  const std::string path_ = scheme_ + "://store/place";
  const std::shared_ptr<MemoryFileSystem> files_ = std::make_shared<MemoryFileSystem>();
  const io::FileSystemRegistration registration_;
};

// Another file system whose sources are doubled, such as by SlowByteSource or FaultyByteSource.
class DoubledFileSystem final : public io::FileSystem {
 public:
  DoubledFileSystem(std::shared_ptr<const io::FileSystem> files, SourceDouble make_double)
      : files_(std::move(files)), double_(std::move(make_double)) {}

  io::PathStatus status(const std::string& path) const override { return files_->status(path); }
  std::unique_ptr<io::ByteSource> open(const std::string& path,
                                       const io::LocalFileOptions& options) const override {
    return double_(files_->open(path, options));
  }
  std::shared_ptr<const io::OpenDirectory> open_directory(const std::string& path) const override {
    return files_->open_directory(path);
  }
  void make_directories(const std::string& path) const override { files_->make_directories(path); }
  void remove(const std::string& path) const override { files_->remove(path); }
  std::string canonical(const std::string& path) const override { return files_->canonical(path); }

 private:
  const std::shared_ptr<const io::FileSystem> files_;
  const SourceDouble double_;
};

inline MemoryPlace::MemoryPlace(const SourceDouble& make_double)
    : registration_(scheme_, make_double
                                 ? std::shared_ptr<const io::FileSystem>(
                                       std::make_shared<DoubledFileSystem>(files_, make_double))
                                 : files_) {
  files_->make_directories(path_);
}

}  // namespace cellfeed::testing
