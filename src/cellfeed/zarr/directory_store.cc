// Values that are the files of a directory.
#include <algorithm>
#include <atomic>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/base/wall_clock.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/zarr/key_store.h"

namespace cellfeed::zarr {
namespace {

constexpr std::int64_t kMaxTextBytes = std::int64_t{256} << 20;

class DirectoryStore final : public KeyStore {
 public:
  DirectoryStore(std::string path, std::shared_ptr<const io::SeenFiles> seen)
      : path_(std::move(path)),
        seen_(std::move(seen)),
        is_local_(io::is_local(path_)),
        opened_ns_(is_local_ ? wall_clock_ns() : 0) {
    while (path_.size() > 1 && path_.ends_with('/')) path_.pop_back();
  }

  const std::string& path() const override { return path_; }
  bool is_local() const override { return is_local_; }
  std::int64_t size() const override { return 0; }
  std::string file_of(const std::string& key) const override { return path_ + "/" + key; }

  std::optional<ValueStatus> status(const std::string& key) const override {
    const io::PathStatus found = io::status_of(file_of(key));
    if (seen_) seen_->compare(key, found);
    if (!found.is_file()) return std::nullopt;
    return ValueStatus{found.size, found.modified_ns};
  }

  // A file of the future has its time from a wrong clock, and not from a writer.
  bool is_since_opened(const ValueStatus& found) const override {
    return found.modified_ns > opened_ns_ && (!is_local_ || found.modified_ns <= wall_clock_ns());
  }

  std::shared_ptr<const io::ByteSource> open(const std::string& key) const override {
    if (is_local_ && !status(key)) return nullptr;  // what is looked for may lie below a file
    try {
      auto source = io::open_file(file_of(key), {.access = io::FileAccess::kPread, .threads = 1});
      if (opened_ns_ == 0) note_time(key);
      if (!is_local_) compare(key);
      return source;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kNotFound) throw;
      if (seen_) seen_->compare(key, {});
      return nullptr;
    }
  }

  // What was opened of a network stays what it was then, or cannot be read.
  void look_again(const std::string& key) const override {
    if (is_local_) compare(key);
  }
  std::shared_ptr<const io::SeenFiles> seen() const override { return seen_; }

  std::vector<std::string> names_in(const std::string& key) const override {
    const std::string folder = key.empty() ? path_ : file_of(key);
    if (!io::is_directory(folder)) return {};
    return io::Directory(folder).names();
  }

  void require_unchanged() const override {}

 private:
  void compare(const std::string& key) const {
    if (seen_) seen_->compare(key, io::status_of(file_of(key)));
  }
  // Of a network, the clock that times are of is the server's, which its first answer tells.
  void note_time(const std::string& key) const {
    const std::int64_t seen = io::status_of(file_of(key)).seen_ns;
    opened_ns_ = seen != 0 ? seen : wall_clock_ns();
  }

  std::string path_;
  const std::shared_ptr<const io::SeenFiles> seen_;
  const bool is_local_;
  mutable std::atomic<std::int64_t> opened_ns_;
};

}  // namespace

std::shared_ptr<const KeyStore> open_directory_store(const std::string& path,
                                                     std::shared_ptr<const io::SeenFiles> seen) {
  return std::make_shared<const DirectoryStore>(path, std::move(seen));
}

bool is_sound_key(const std::string& key) {
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = std::min(key.find('/', begin), key.size());
    const auto part = std::string_view(key).substr(begin, end - begin);
    if (part.empty() || part == "." || part == ".." || part.find('\0') != part.npos) return false;
    if (end == key.size()) return true;
    begin = end + 1;
  }
}

std::optional<std::string> read_text(const KeyStore& store, const std::string& key) {
  const auto value = store.open(key);
  if (!value) return std::nullopt;
  if (value->size() > kMaxTextBytes)
    throw_error(ErrorKind::kCorruptData, store.path(),
                "'{}' has {} bytes, more than metadata ever has", key, value->size());
  std::string text(static_cast<std::size_t>(value->size()), '\0');
  value->read(0, std::as_writable_bytes(std::span<char>(text)));
  store.look_again(key);
  return text;
}

}  // namespace cellfeed::zarr
