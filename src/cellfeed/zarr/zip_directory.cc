#include "cellfeed/zarr/zip_directory.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/io/codecs.h"

namespace cellfeed::zarr {
namespace {

constexpr std::uint64_t kLocalHeader = 0x04034b50;
constexpr std::uint64_t kCentralHeader = 0x02014b50;
constexpr std::uint64_t kEnd = 0x06054b50;
constexpr std::uint64_t kEnd64 = 0x06064b50;
constexpr std::uint64_t kEnd64Locator = 0x07064b50;
constexpr std::size_t kLocalBytes = 30;
constexpr std::size_t kCentralBytes = 46;
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kEnd64Bytes = 56;
constexpr std::size_t kLocatorBytes = 20;
constexpr std::int64_t kMaxCommentBytes = 0xffff;
constexpr std::int64_t kMaxDirectoryBytes = std::int64_t{4} << 30;
constexpr std::uint64_t kIn64 = 0xffffffff;  // the number stands in the extra field

[[noreturn]] void throw_damaged(const io::ByteSource& source, const std::string& what) {
  throw_error(ErrorKind::kCorruptData, source.path(),
              "damaged zip file: {}; copy or download it again", what);
}

// Fields of a record, little endian.
class Record {
 public:
  explicit Record(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::uint64_t number(std::size_t at, std::size_t n) const {
    return io::read_little_endian(bytes_.subspan(at, n));
  }
  std::span<const std::byte> part(std::size_t at, std::size_t n) const {
    return bytes_.subspan(at, n);
  }
  std::size_t size() const { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
};

std::vector<std::byte> read_at(const io::ByteSource& source, std::int64_t offset, std::size_t n) {
  std::vector<std::byte> bytes(n);
  source.read(offset, bytes);
  return bytes;
}

// As a number that is inside the file.
std::int64_t inside(const io::ByteSource& source, std::uint64_t number, const char* what) {
  if (number > static_cast<std::uint64_t>(source.size()))
    throw_damaged(source, fmt::format("{} {} is past its end, at {}", what, number, source.size()));
  return static_cast<std::int64_t>(number);
}

struct Directory {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  std::uint64_t n_entries = 0;
  std::int64_t bytes_before = 0;  // of the file, that offsets do not count
};

// Where the locator of a zip64 file ends, if it is one, reads the record that it leads to.
bool read_end64(const io::ByteSource& source, std::int64_t end, Directory& directory) {
  const std::int64_t at = end - static_cast<std::int64_t>(kLocatorBytes);
  if (at < 0) return false;
  const auto locator_bytes = read_at(source, at, kLocatorBytes);
  const Record locator(locator_bytes);
  if (locator.number(0, 4) != kEnd64Locator) return false;
  const std::int64_t place = inside(source, locator.number(8, 8), "its zip64 record at");
  const auto bytes = read_at(source, place, kEnd64Bytes);
  const Record record(bytes);
  if (record.number(0, 4) != kEnd64) throw_damaged(source, "its zip64 record is damaged");
  if (record.number(16, 4) != 0 || record.number(20, 4) != 0)
    throw_error(ErrorKind::kUnsupported, source.path(), "a zip file on several disks");
  directory.n_entries = record.number(32, 8);
  directory.bytes = inside(source, record.number(40, 8), "a directory of bytes");
  directory.offset = inside(source, record.number(48, 8), "its directory at");
  return true;
}

Directory find_directory(const io::ByteSource& source) {
  const std::int64_t tail =
      std::min(source.size(), static_cast<std::int64_t>(kEndBytes) + kMaxCommentBytes);
  const auto bytes = read_at(source, source.size() - tail, static_cast<std::size_t>(tail));
  for (std::size_t at = bytes.size() - std::min(bytes.size(), kEndBytes) + 1; at-- > 0;) {
    if (bytes.size() - at < kEndBytes) continue;
    const Record end(std::span<const std::byte>(bytes).subspan(at));
    if (end.number(0, 4) != kEnd || end.number(20, 2) != end.size() - kEndBytes) continue;
    const std::int64_t begin = source.size() - static_cast<std::int64_t>(end.size());
    Directory directory;
    directory.n_entries = end.number(10, 2);
    // Also where the numbers would fit here.
    if (read_end64(source, begin, directory)) return directory;
    if (end.number(4, 2) != 0 || end.number(6, 2) != 0)
      throw_error(ErrorKind::kUnsupported, source.path(), "a zip file on several disks");
    directory.bytes = inside(source, end.number(12, 4), "a directory of bytes");
    directory.offset = inside(source, end.number(16, 4), "its directory at");
    // Something may have been put before it.
    directory.bytes_before = begin - directory.bytes - directory.offset;
    if (directory.bytes_before < 0) throw_damaged(source, "its directory overlaps its end");
    return directory;
  }
  throw_damaged(source, "there is no directory at its end (truncated?)");
}

// The 64-bit numbers of an entry, in the order of the fields that refer to them.
class Extra64 {
 public:
  Extra64(const io::ByteSource& source, Record extra) : source_(source) {
    std::size_t at = 0;
    while (at + 4 <= extra.size()) {
      const auto id = extra.number(at, 2);
      const auto n = static_cast<std::size_t>(extra.number(at + 2, 2));
      if (n > extra.size() - at - 4) return;  // others than zip64 may be padding
      if (id == 1) rest_ = extra.part(at + 4, n);
      at += 4 + n;
    }
  }
  std::uint64_t resolve(std::uint64_t number) {
    if (number != kIn64) return number;
    if (rest_.size() < 8) throw_damaged(source_, "an entry lacks its zip64 numbers");
    number = io::read_little_endian(rest_.first(8));
    rest_ = rest_.subspan(8);
    return number;
  }

 private:
  const io::ByteSource& source_;
  std::span<const std::byte> rest_;
};

ZipEntry parse_entry(const io::ByteSource& source, const std::string& name, const Record& record,
                     Record extra, const Directory& directory) {
  const auto flags = record.number(8, 2);
  const auto method = record.number(10, 2);
  if ((flags & 1) != 0)
    throw_error(ErrorKind::kUnsupported, source.path(), "'{}' in it is encrypted", name);
  if (method != 0 && method != 8)
    throw_error(ErrorKind::kUnsupported, source.path(),
                "'{}' in it is compressed by method {}, and stored or deflated ones are readable",
                name, method);
  Extra64 numbers(source, extra);
  ZipEntry entry;
  const auto bytes = numbers.resolve(record.number(24, 4));
  entry.stored_bytes = inside(source, numbers.resolve(record.number(20, 4)), "an entry of bytes");
  const auto offset = numbers.resolve(record.number(42, 4));
  entry.header_offset = inside(source, offset, "an entry at") + directory.bytes_before;
  entry.is_deflated = method == 8;
  entry.crc32 = static_cast<std::uint32_t>(record.number(16, 4));
  constexpr std::uint64_t kMostExpansion = 1100;
  if (bytes > (entry.is_deflated ? kMostExpansion : 1) *
                  static_cast<std::uint64_t>(entry.stored_bytes + 1) ||
      (!entry.is_deflated && bytes != static_cast<std::uint64_t>(entry.stored_bytes)))
    throw_damaged(source, fmt::format("'{}' has {} bytes in {} that are stored", name, bytes,
                                      entry.stored_bytes));
  entry.bytes = static_cast<std::int64_t>(bytes);
  return entry;
}

}  // namespace

std::map<std::string, ZipEntry> read_zip_directory(const io::ByteSource& source) {
  const Directory directory = find_directory(source);
  if (directory.bytes > kMaxDirectoryBytes ||
      directory.offset + directory.bytes_before > source.size() - directory.bytes)
    throw_damaged(source, "its directory is past its end");
  const auto bytes = read_at(source, directory.offset + directory.bytes_before,
                             static_cast<std::size_t>(directory.bytes));
  std::map<std::string, ZipEntry> entries;
  std::span<const std::byte> rest(bytes);
  for (std::uint64_t i = 0; i < directory.n_entries; ++i) {
    const Record record(rest);
    if (rest.size() < kCentralBytes || record.number(0, 4) != kCentralHeader)
      throw_damaged(
          source, fmt::format("its directory ends after {} of {} entries", i, directory.n_entries));
    const auto name_bytes = static_cast<std::size_t>(record.number(28, 2));
    const auto extra_bytes = static_cast<std::size_t>(record.number(30, 2));
    const std::size_t all =
        kCentralBytes + name_bytes + extra_bytes + static_cast<std::size_t>(record.number(32, 2));
    if (all > rest.size()) throw_damaged(source, "an entry is longer than its directory");
    const auto text = record.part(kCentralBytes, name_bytes);
    const std::string name(reinterpret_cast<const char*>(text.data()), text.size());
    const Record extra(record.part(kCentralBytes + name_bytes, extra_bytes));
    if (!name.ends_with('/')) entries[name] = parse_entry(source, name, record, extra, directory);
    rest = rest.subspan(all);
  }
  return entries;
}

std::int64_t find_entry_bytes(const io::ByteSource& source, const std::string& name,
                              const ZipEntry& entry) {
  std::array<std::byte, kLocalBytes> header;
  source.read(entry.header_offset, header);
  const Record record(header);
  if (record.number(0, 4) != kLocalHeader)
    throw_damaged(source, fmt::format("'{}' has no header at {}", name, entry.header_offset));
  const auto begin = entry.header_offset + static_cast<std::int64_t>(kLocalBytes) +
                     static_cast<std::int64_t>(record.number(26, 2) + record.number(28, 2));
  if (begin > source.size() || entry.stored_bytes > source.size() - begin)
    throw_damaged(source, fmt::format("'{}' is past its end", name));
  return begin;
}

}  // namespace cellfeed::zarr
