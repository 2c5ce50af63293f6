#include "cellfeed/cloud/cache/block_file.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/cloud/cache/kept_copies.h"
#include "cellfeed/io/cache_warnings.h"

namespace cellfeed::cloud {
namespace {

constexpr std::uint64_t kBlocksMagic = 0x534b434f4c424643;  // "CFBLOCKS" of a little endian machine
constexpr std::uint64_t kBlocksVersion = 1;
constexpr std::int64_t kPageBytes = 4096;
constexpr std::int64_t kHeadBytes = 2 * kPageBytes;
constexpr std::int64_t kEntryBytes = 16;
constexpr std::int64_t kMostBlocks = std::int64_t{1} << 32;
constexpr std::int64_t kMostBlockBytes = std::int64_t{1} << 26;
constexpr int kOpenTries = 10;

struct Head {
  std::uint64_t magic = kBlocksMagic;
  std::uint64_t version = kBlocksVersion;
  std::int64_t block_bytes = 0;
  std::int64_t object_bytes = 0;
  std::uint64_t name_hash = 0;
  std::uint64_t n_path = 0;
  std::uint64_t checksum = 0;  // of the head, with 0 here
  std::array<char, kHeadBytes - 56> path{};
};
static_assert(sizeof(Head) == kHeadBytes);

std::uint64_t hash_bytes(const void* data, std::size_t n) { return XXH3_64bits(data, n); }

std::uint64_t checksum_of_head(Head head) {
  head.checksum = 0;
  return hash_bytes(&head, sizeof(head));
}

std::int64_t rounded_to_pages(std::int64_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

std::int64_t count_blocks(std::int64_t object_bytes, std::int64_t block_bytes) {
  return object_bytes / block_bytes + (object_bytes % block_bytes != 0 ? 1 : 0);
}

std::int64_t begin_of_data(std::int64_t object_bytes, std::int64_t block_bytes) {
  return rounded_to_pages(kHeadBytes + kEntryBytes * count_blocks(object_bytes, block_bytes));
}

std::uint64_t hash_of_name(const std::string& name) { return hash_bytes(name.data(), name.size()); }

Head head_of(const std::string& name, const std::string& of_object, std::int64_t object_bytes,
             std::int64_t block_bytes) {
  Head head{.block_bytes = block_bytes,
            .object_bytes = object_bytes,
            .name_hash = hash_of_name(name),
            .n_path = std::min(of_object.size(), sizeof(Head::path))};
  std::copy_n(of_object.begin(), head.n_path, head.path.begin());
  head.checksum = checksum_of_head(head);
  return head;
}

// Empty where it is not the whole head of a file of this name and length.
std::optional<Head> read_head(const io::SharedFile& file, const std::string& name) {
  Head head;
  if (!file.read(0, std::as_writable_bytes(std::span(&head, 1)))) return std::nullopt;
  if (head.magic != kBlocksMagic || head.version != kBlocksVersion ||
      head.checksum != checksum_of_head(head) || head.name_hash != hash_of_name(name) ||
      head.n_path > head.path.size())
    return std::nullopt;
  if (head.block_bytes < 1 || head.block_bytes > kMostBlockBytes || head.object_bytes < 0 ||
      head.object_bytes / head.block_bytes >= kMostBlocks ||
      file.size() != begin_of_data(head.object_bytes, head.block_bytes) + head.object_bytes)
    return std::nullopt;
  return head;
}

}  // namespace

bool is_block_file_name(std::string_view name) {
  return name.starts_with(kBlocksPrefix) && is_copy_name(name.substr(kBlocksPrefix.size()));
}

std::unique_ptr<BlockFile> BlockFile::open_or_make(const io::Directory& directory,
                                                   const std::string& name,
                                                   const std::string& of_object,
                                                   std::int64_t object_bytes,
                                                   std::int64_t block_bytes) {
  const Head wanted = head_of(name, of_object, object_bytes, block_bytes);
  bool is_new = false;
  for (int i = 0; i < kOpenTries; ++i) {
    auto on_existing = io::OnExisting::kRefuse;
    if (auto file = io::SharedFile::open(directory, name)) {
      const auto head = read_head(*file, name);
      if (head && head->object_bytes == object_bytes && head->block_bytes == block_bytes) {
        std::unique_ptr<BlockFile> blocks(
            new BlockFile(std::move(file), of_object, wanted.name_hash, object_bytes, block_bytes));
        blocks->is_new_ = is_new;
        return blocks;
      }
      io::warn_of_cache(fmt::format("{}: is no whole file of blocks of {}, and was made anew",
                                    file->path(), of_object));
      on_existing = io::OnExisting::kReplace;
    }
    try {
      io::SharedFile::make({directory, name}, on_existing, std::as_bytes(std::span(&wanted, 1)),
                           begin_of_data(object_bytes, block_bytes) + object_bytes);
      is_new = true;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kAlreadyExists) throw;  // another process was first
    }
  }
  throw_error(ErrorKind::kIo, directory.path_of(name),
              "is removed or damaged again and again: see who else writes to this folder, or read "
              "without cache_dir");
}

std::unique_ptr<BlockFile> BlockFile::look(const io::Directory& directory,
                                           const std::string& name) {
  auto file = io::SharedFile::open(directory, name);
  if (!file) return nullptr;
  const auto head = read_head(*file, name);
  if (!head) return nullptr;
  return std::unique_ptr<BlockFile>(
      new BlockFile(std::move(file), std::string(head->path.data(), head->n_path), head->name_hash,
                    head->object_bytes, head->block_bytes));
}

std::int64_t BlockFile::least_bytes(std::int64_t object_bytes, std::int64_t block_bytes) {
  return begin_of_data(object_bytes, block_bytes) + std::min(object_bytes, block_bytes);
}

BlockFile::BlockFile(std::unique_ptr<io::SharedFile> file, std::string of_object,
                     std::uint64_t name_hash, std::int64_t object_bytes, std::int64_t block_bytes)
    : file_(std::move(file)),
      of_object_(std::move(of_object)),
      name_hash_(name_hash),
      object_bytes_(object_bytes),
      block_bytes_(block_bytes) {}

std::int64_t BlockFile::n_blocks() const { return count_blocks(object_bytes_, block_bytes_); }

io::ByteRange BlockFile::range_of(std::int64_t block) const {
  const std::int64_t begin = block * block_bytes_;
  return {begin, std::min(block_bytes_, object_bytes_ - begin)};
}

std::uint64_t BlockFile::guard_of(std::int64_t block, std::uint64_t checksum) const {
  const std::uint64_t parts[] = {checksum, static_cast<std::uint64_t>(block), name_hash_};
  return hash_bytes(parts, sizeof(parts));
}

std::optional<BlockFile::Entry> BlockFile::read_entry(std::int64_t block) const {
  Entry entry;
  static_assert(sizeof(entry) == kEntryBytes);
  if (!file_->read(kHeadBytes + kEntryBytes * block, std::as_writable_bytes(std::span(&entry, 1))))
    return std::nullopt;
  return entry;
}

std::optional<std::uint64_t> BlockFile::checksum_of(std::int64_t block) const {
  const auto entry = read_entry(block);
  if (!entry || entry->guard != guard_of(block, entry->checksum)) return std::nullopt;
  return entry->checksum;
}

bool BlockFile::is_entry_damaged(std::int64_t block) const {
  const auto entry = read_entry(block);
  if (!entry) return true;
  return (entry->checksum != 0 || entry->guard != 0) &&
         entry->guard != guard_of(block, entry->checksum);
}

bool BlockFile::read(std::int64_t offset, std::span<std::byte> out) const {
  return file_->read(begin_of_data(object_bytes_, block_bytes_) + offset, out);
}

std::uint64_t BlockFile::checksum(std::span<const std::byte> block) {
  return hash_bytes(block.data(), block.size());
}

bool BlockFile::read_block(std::int64_t block, std::uint64_t checksum,
                           std::span<std::byte> out) const {
  return read(range_of(block).offset, out) && BlockFile::checksum(out) == checksum;
}

void BlockFile::write_block(std::int64_t block, std::span<const std::byte> bytes) const {
  file_->write(begin_of_data(object_bytes_, block_bytes_) + range_of(block).offset, bytes);
}

void BlockFile::note_block(std::int64_t block, std::uint64_t checksum) const {
  const Entry entry{checksum, guard_of(block, checksum)};
  file_->write(kHeadBytes + kEntryBytes * block, std::as_bytes(std::span(&entry, 1)));
}

std::string damage_of_blocks(const io::Directory& directory, const std::string& name,
                             const std::function<void(std::int64_t, std::int64_t)>& progress) {
  const auto file = BlockFile::look(directory, name);
  if (!file)
    return directory.file_bytes(name) ? "its head is damaged, so that nothing tells what it was"
                                      : "";
  std::vector<std::byte> bytes(static_cast<std::size_t>(file->block_bytes()));
  const std::int64_t all = file->n_blocks() * file->block_bytes();
  for (std::int64_t block = 0; block < file->n_blocks(); ++block) {
    if (progress) progress(block * file->block_bytes(), all);
    const auto checksum = file->checksum_of(block);
    if (!checksum) {
      if (file->is_entry_damaged(block))
        return fmt::format("the entry of block {} is damaged", block);
      continue;
    }
    const auto of_block =
        std::span(bytes).first(static_cast<std::size_t>(file->range_of(block).length));
    if (!file->read_block(block, *checksum, of_block))
      return fmt::format("block {} is not as it was written: its checksum is another", block);
  }
  return "";
}

}  // namespace cellfeed::cloud
