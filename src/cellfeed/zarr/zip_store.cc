// Values that are the entries of a zip file.
#include <algorithm>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/io/crc.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/io/memory_source.h"
#include "cellfeed/io/unsized.h"
#include "cellfeed/zarr/key_store.h"
#include "cellfeed/zarr/zip_directory.h"

namespace cellfeed::zarr {
namespace {

// A part of another source.
class PartSource final : public io::ByteSource {
 public:
  PartSource(std::shared_ptr<const io::ByteSource> whole, io::ByteRange range)
      : whole_(std::move(whole)), range_(range) {}

  const std::string& path() const override { return whole_->path(); }
  std::int64_t size() const override { return range_.length; }
  bool is_unchanged() const override { return whole_->is_unchanged(); }
  std::string_view backend_name() const override { return whole_->backend_name(); }
  void read(std::int64_t offset, std::span<std::byte> out) const override {
    io::check_range(*this, offset, std::ssize(out));
    whole_->read(range_.offset + offset, out);
  }
  void read_many(std::span<const io::ReadRequest> requests) const override {
    whole_->read_many(moved(requests));
  }
  std::unique_ptr<io::PendingReads> begin_read_many(
      std::span<const io::ReadRequest> requests) const override {
    return whole_->begin_read_many(moved(requests));
  }
  bool has_lost_pages() const override { return whole_->has_lost_pages(); }

 private:
  std::vector<io::ReadRequest> moved(std::span<const io::ReadRequest> requests) const {
    io::check_requests(*this, requests);
    std::vector<io::ReadRequest> all(requests.begin(), requests.end());
    for (io::ReadRequest& request : all) request.offset += range_.offset;
    return all;
  }

  const std::shared_ptr<const io::ByteSource> whole_;
  const io::ByteRange range_;
};

class ZipStore final : public KeyStore {
 public:
  explicit ZipStore(const std::string& path)
      : source_(io::open_file(path, {.guarded = true})),
        is_local_(io::is_local(path)),
        entries_(read_zip_directory(*source_)),
        root_(find_root(entries_)) {
    require_unchanged();
  }

  const std::string& path() const override { return source_->path(); }
  bool is_local() const override { return is_local_ && !source_->map().empty(); }
  std::int64_t size() const override { return source_->size(); }
  std::string file_of(const std::string&) const override { return path(); }

  std::optional<ValueStatus> status(const std::string& key) const override {
    const auto found = entries_.find(root_ + key);
    if (found == entries_.end()) return std::nullopt;
    return ValueStatus{found->second.bytes};
  }

  std::shared_ptr<const io::ByteSource> open(const std::string& key) const override {
    const auto found = entries_.find(root_ + key);
    if (found == entries_.end()) return nullptr;
    const ZipEntry& entry = found->second;
    const std::int64_t begin = find_entry_bytes(*source_, found->first, entry);
    auto part =
        std::make_shared<const PartSource>(source_, io::ByteRange{begin, entry.stored_bytes});
    if (!entry.is_deflated) return part;
    return inflate(found->first, entry, *part);
  }

  std::vector<std::string> names_in(const std::string& key) const override {
    const std::string folder = root_ + (key.empty() ? "" : key + "/");
    std::vector<std::string> names;
    for (auto at = entries_.lower_bound(folder);
         at != entries_.end() && at->first.starts_with(folder); ++at) {
      std::string name = at->first.substr(folder.size());
      name.resize(std::min(name.find('/'), name.size()));
      names.push_back(std::move(name));
    }
    std::ranges::sort(names);
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
  }

  std::span<const std::byte> map(const std::string& key) const override {
    const auto found = entries_.find(root_ + key);
    const auto map = source_->map();
    if (found == entries_.end() || found->second.is_deflated || map.empty()) return {};
    const std::int64_t begin = find_entry_bytes(*source_, found->first, found->second);
    return map.subspan(static_cast<std::size_t>(begin),
                       static_cast<std::size_t>(found->second.bytes));
  }

  void check(const std::string& key, std::span<const std::byte> value) const override {
    const auto found = entries_.find(root_ + key);
    if (!found->second.is_deflated) check(found->first, found->second, value);
  }

  void require_unchanged() const override { io::require_unchanged(*source_); }
  void release_pages() const override { source_->release_pages(); }

 private:
  // Who packs a folder puts its name before everything in it.
  static std::string find_root(const std::map<std::string, ZipEntry>& entries) {
    for (const char* name : {".zgroup", ".zarray", "zarr.json"})
      if (entries.contains(name)) return "";
    if (entries.empty()) return "";
    const std::string& first = entries.begin()->first;
    const std::string folder = first.substr(0, first.find('/') + 1);
    const bool holds_all = std::ranges::all_of(
        entries, [&](const auto& entry) { return entry.first.starts_with(folder); });
    return holds_all ? folder : "";
  }

  std::shared_ptr<const io::ByteSource> inflate(const std::string& name, const ZipEntry& entry,
                                                const io::ByteSource& part) const {
    std::vector<std::byte> stored(static_cast<std::size_t>(entry.stored_bytes));
    part.read(0, stored);
    std::vector<std::byte> bytes(static_cast<std::size_t>(entry.bytes));
    try {
      io::inflate_raw(stored, bytes);
    } catch (const Error& error) {
      require_unchanged();  // zeros of lost pages are no damage
      throw_error(error.kind(), path(), "'{}' in it: {}", name, error.what());
    }
    check(name, entry, bytes);
    return io::make_memory_source(path(), std::move(bytes));
  }

  void check(const std::string& name, const ZipEntry& entry,
             std::span<const std::byte> bytes) const {
    const std::uint32_t crc = io::crc32(bytes);
    if (crc == entry.crc32) return;
    require_unchanged();
    throw_error(ErrorKind::kCorruptData, path(),
                "'{}' in it is damaged: its CRC-32 is {:08x}, the zip file says {:08x}; copy or "
                "download the file again",
                name, crc, entry.crc32);
  }

  const std::shared_ptr<const io::ByteSource> source_;
  const bool is_local_;
  const std::map<std::string, ZipEntry> entries_;
  const std::string root_;
};

}  // namespace

std::shared_ptr<const KeyStore> open_zip_store(const std::string& path) {
  return std::make_shared<const ZipStore>(path);
}

}  // namespace cellfeed::zarr
