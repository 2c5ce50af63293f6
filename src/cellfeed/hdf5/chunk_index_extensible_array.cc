// The extensible array index. HDF5 File Format Specification 4.0, VII.D.
#include <algorithm>
#include <bit>
#include <numeric>

#include "cellfeed/hdf5/chunk_index_kinds.h"
#include "cellfeed/hdf5/walk_bound.h"

namespace cellfeed::hdf5 {
namespace {

constexpr std::string_view kExtensibleArrayHeader = "extensible array header";
constexpr std::string_view kIndexBlockName = "extensible array index block";
constexpr std::string_view kSuperBlockName = "extensible array secondary block";
constexpr std::string_view kDataBlockName = "extensible array data block";
constexpr std::string_view kExtensibleArrayPage = "extensible array data block page";
constexpr int kMaxBits = 63;

// One super block's worth of data blocks; the first few have no super block in the file, and are
// named by the index block.
struct SuperBlock {
  std::uint64_t n_data_blocks = 0;
  std::uint64_t data_block_entries = 0;
  std::uint64_t first_entry = 0;  // counted from the first that is not in the index block
  std::uint64_t first_data_block = 0;
};

struct ExtensibleArrayHeader {
  ArrayEntryFormat format;
  int client = 0;
  int max_bits = 0;
  std::uint64_t index_block_entries = 0;
  std::uint64_t min_data_block_entries = 0;
  std::uint64_t min_pointers = 0;
  std::uint64_t page_entries = 0;
  Address index_block = kUndefinedAddress;
  std::vector<SuperBlock> super_blocks;

  // "Block Offset" fields.
  std::uint64_t block_offset_bytes() const {
    return (static_cast<std::uint64_t>(max_bits) + 7) / 8;
  }
  std::uint64_t n_direct_super_blocks() const {
    return 2 * static_cast<std::uint64_t>(std::bit_width(min_pointers) - 1);
  }
  std::uint64_t n_direct_data_blocks() const { return 2 * (min_pointers - 1); }
  std::uint64_t super_block_of(std::uint64_t entry) const {
    return static_cast<std::uint64_t>(std::bit_width(entry / min_data_block_entries + 1) - 1);
  }
};

// A data block or one of its pages, and the chunks [begin, end) that it has entries of.
struct Part {
  Address address = 0;
  std::uint64_t first_entry = 0;
  std::uint64_t n_entries = 0;
  bool is_page = false;
  std::size_t begin = 0;
  std::size_t end = 0;
};

// A super block in the file, and the chunks below it.
struct Visit {
  Address address = 0;
  std::uint64_t number = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
};

class ExtensibleArrayIndex final : public ChunkIndex {
 public:
  ExtensibleArrayIndex(const FileBytes& file, ChunkedLayout layout, ChunkGrid grid,
                       bool has_filters);

 protected:
  void find(std::span<const std::uint64_t> coordinates, std::span<Entry> found) const override;

 private:
  std::vector<std::uint64_t> numbers_of(std::span<const std::uint64_t> coordinates) const;
  ExtensibleArrayHeader read_header() const;
  void set_super_blocks(const Cursor& at, ExtensibleArrayHeader& header) const;
  Cursor read_framed(const ExtensibleArrayHeader& header, Address address, std::uint64_t content,
                     std::string_view name, std::string_view signature) const;
  void find_numbers(const ExtensibleArrayHeader& header, std::span<const std::uint64_t> numbers,
                    std::span<Entry> found) const;
  void read_index_block(const ExtensibleArrayHeader& header, std::span<const std::uint64_t> numbers,
                        std::span<Entry> found, std::vector<Visit>& visits,
                        std::vector<Part>& parts) const;
  void read_super_block(const ExtensibleArrayHeader& header, const Visit& visit,
                        std::span<const std::uint64_t> numbers, std::vector<Part>& parts) const;
  void read_part(const ExtensibleArrayHeader& header, const Part& part,
                 std::span<const std::uint64_t> numbers, std::span<Entry> found) const;
  std::uint64_t frame_bytes() const { return 6 + static_cast<std::uint64_t>(file_.offset_size()); }
  std::uint64_t part_bytes(const ExtensibleArrayHeader& header, const Part& part) const {
    const std::uint64_t entries = part.n_entries * header.format.bytes() + kChecksumBytes;
    return part.is_page ? entries : frame_bytes() + header.block_offset_bytes() + entries;
  }
  void read_entry(const ExtensibleArrayHeader& header, Cursor& at, Entry& entry) const {
    header.format.read(at, layout_.chunk_bytes, entry.address, entry.n_bytes, entry.skipped);
  }

  std::size_t unlimited_ = 0;  // the dimension that may grow; it counts as the first
};

void add_part(std::vector<Part>& parts, const Part& part) {
  if (part.address == kUndefinedAddress) return;
  if (!parts.empty() && parts.back().first_entry == part.first_entry &&
      parts.back().end == part.begin)
    parts.back().end = part.end;
  else
    parts.push_back(part);
}

ExtensibleArrayIndex::ExtensibleArrayIndex(const FileBytes& file, ChunkedLayout layout,
                                           ChunkGrid grid, bool has_filters)
    : ChunkIndex(file, std::move(layout), std::move(grid), has_filters) {
  const auto max_shape = grid_.max_shape();
  const auto n_unlimited = std::count(max_shape.begin(), max_shape.end(), kUnlimited);
  if (n_unlimited != 1)
    throw_error(ErrorKind::kCorruptData, file.path(),
                "an extensible array for a dataset with {} unlimited dimensions, not one",
                n_unlimited);
  unlimited_ = static_cast<std::size_t>(std::find(max_shape.begin(), max_shape.end(), kUnlimited) -
                                        max_shape.begin());
}

// Row-major, with the unlimited dimension moved to the front.
std::vector<std::uint64_t> ExtensibleArrayIndex::numbers_of(
    std::span<const std::uint64_t> coordinates) const {
  const auto to_front = [&](std::span<std::uint64_t> values) {
    const auto moved = values.begin() + static_cast<std::ptrdiff_t>(unlimited_);
    std::rotate(values.begin(), moved, moved + 1);
  };
  std::vector<std::uint64_t> counts = grid_.max_counts();
  to_front(counts);
  std::vector<std::uint64_t> turned(coordinates.begin(), coordinates.end());
  for (std::size_t at = 0; at < turned.size(); at += counts.size())
    to_front(std::span(turned).subspan(at, counts.size()));
  return linear_numbers(file_, turned, counts);
}

ExtensibleArrayHeader ExtensibleArrayIndex::read_header() const {
  const auto bytes = 12 + 6 * static_cast<std::uint64_t>(file_.length_size()) +
                     static_cast<std::uint64_t>(file_.offset_size());
  Cursor at(file_, layout_.address, bytes + kChecksumBytes, kExtensibleArrayHeader);
  at.verify_checksum(bytes);
  at.expect_signature("EAHD");
  if (const int version = at.u8(); version != 0) at.fail("version {} is not known", version);
  const int client = at.u8();
  ExtensibleArrayHeader header{.format = ArrayEntryFormat(at, client, at.u8()), .super_blocks = {}};
  header.client = client;
  header.max_bits = at.u8();
  header.index_block_entries = at.u8();
  header.min_data_block_entries = at.u8();
  header.min_pointers = at.u8();
  const int page_bits = at.u8();
  if (header.max_bits > kMaxBits || page_bits > header.max_bits)
    at.fail("2^{} entries in pages of 2^{}", header.max_bits, page_bits);
  header.page_entries = std::uint64_t{1} << page_bits;
  at.skip(6 * static_cast<std::uint64_t>(file_.length_size()));
  header.index_block = at.read_address();
  set_super_blocks(at, header);
  return header;
}

// Super block k has 2^(k/2) data blocks of 2^((k+1)/2) times the least number of entries.
void ExtensibleArrayIndex::set_super_blocks(const Cursor& at, ExtensibleArrayHeader& header) const {
  if (!std::has_single_bit(header.min_data_block_entries) || header.min_pointers < 2 ||
      !std::has_single_bit(header.min_pointers))
    at.fail("data blocks of {} entries at least, {} in a secondary block",
            header.min_data_block_entries, header.min_pointers);
  const int min_bits = static_cast<int>(std::bit_width(header.min_data_block_entries)) - 1;
  if (min_bits > header.max_bits) at.fail("data blocks of 2^{} entries at least", min_bits);
  SuperBlock block;
  for (int k = 0; k <= header.max_bits - min_bits; ++k) {
    block.n_data_blocks = std::uint64_t{1} << (k / 2);
    block.data_block_entries = header.min_data_block_entries << ((k + 1) / 2);
    header.super_blocks.push_back(block);
    block.first_entry += block.n_data_blocks * block.data_block_entries;
    block.first_data_block += block.n_data_blocks;
  }
  if (header.n_direct_super_blocks() > header.super_blocks.size())
    at.fail("an index block for {} secondary blocks of {}", header.n_direct_super_blocks(),
            header.super_blocks.size());
}

// A block with a signature, the header's address, content and a checksum; at its content.
Cursor ExtensibleArrayIndex::read_framed(const ExtensibleArrayHeader& header, Address address,
                                         std::uint64_t content, std::string_view name,
                                         std::string_view signature) const {
  Cursor at(file_, address, frame_bytes() + content + kChecksumBytes, name);
  at.verify_checksum(frame_bytes() + content);
  at.expect_signature(signature);
  if (const int version = at.u8(); version != 0) at.fail("version {} is not known", version);
  if (const int client = at.u8(); client != header.client)
    at.fail("its client is {}, that of its header {}", client, header.client);
  if (const Address owner = at.read_address(); owner != layout_.address)
    at.fail("it belongs to the header at {}", owner);
  return at;
}

// The first entries themselves, then the addresses of the first data blocks, then of super blocks.
void ExtensibleArrayIndex::read_index_block(const ExtensibleArrayHeader& header,
                                            std::span<const std::uint64_t> numbers,
                                            std::span<Entry> found, std::vector<Visit>& visits,
                                            std::vector<Part>& parts) const {
  const auto address_bytes = static_cast<std::uint64_t>(file_.offset_size());
  const std::uint64_t n_direct = header.n_direct_super_blocks();
  const std::uint64_t entries_bytes = header.index_block_entries * header.format.bytes();
  const std::uint64_t n_addresses =
      header.n_direct_data_blocks() + header.super_blocks.size() - n_direct;
  Cursor at = read_framed(header, header.index_block, entries_bytes + n_addresses * address_bytes,
                          kIndexBlockName, "EAIB");
  const std::uint64_t content = at.position();
  const auto address_at = [&](std::uint64_t i) {
    at.seek(content + entries_bytes + i * address_bytes);
    return at.read_address();
  };
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] < header.index_block_entries) {
      at.seek(content + numbers[i] * header.format.bytes());
      read_entry(header, at, found[i]);
      continue;
    }
    const std::uint64_t entry = numbers[i] - header.index_block_entries;
    const std::uint64_t number = header.super_block_of(entry);
    if (number >= header.super_blocks.size())
      at.fail("chunk {} of at most 2^{}", numbers[i], header.max_bits);
    const SuperBlock& block = header.super_blocks[number];
    if (number >= n_direct) {
      const Address address = address_at(header.n_direct_data_blocks() + number - n_direct);
      if (address == kUndefinedAddress) continue;
      if (!visits.empty() && visits.back().number == number && visits.back().end == i)
        visits.back().end = i + 1;
      else
        visits.push_back({address, number, i, i + 1});
      continue;
    }
    if (block.data_block_entries > header.page_entries)
      at.fail("data blocks of {} entries with pages of {}", block.data_block_entries,
              header.page_entries);
    const std::uint64_t within = (entry - block.first_entry) / block.data_block_entries;
    add_part(parts, {.address = address_at(block.first_data_block + within),
                     .first_entry = block.first_entry + within * block.data_block_entries,
                     .n_entries = block.data_block_entries,
                     .is_page = false,
                     .begin = i,
                     .end = i + 1});
  }
}

// Where data blocks have pages, bits that say which were written; then the data blocks' addresses.
void ExtensibleArrayIndex::read_super_block(const ExtensibleArrayHeader& header, const Visit& visit,
                                            std::span<const std::uint64_t> numbers,
                                            std::vector<Part>& parts) const {
  const auto address_bytes = static_cast<std::uint64_t>(file_.offset_size());
  const SuperBlock& block = header.super_blocks[visit.number];
  const std::uint64_t n_pages = block.data_block_entries > header.page_entries
                                    ? block.data_block_entries / header.page_entries
                                    : 0;
  const std::uint64_t bitmap_bytes = block.n_data_blocks * ((n_pages + 7) / 8);
  Cursor at =
      read_framed(header, visit.address,
                  header.block_offset_bytes() + bitmap_bytes + block.n_data_blocks * address_bytes,
                  kSuperBlockName, "EASB");
  at.skip(header.block_offset_bytes());
  const Bytes bitmap = at.bytes(bitmap_bytes);
  const std::uint64_t addresses = at.position();
  for (std::size_t i = visit.begin; i < visit.end; ++i) {
    const std::uint64_t entry = numbers[i] - header.index_block_entries - block.first_entry;
    const std::uint64_t within = entry / block.data_block_entries;
    at.seek(addresses + within * address_bytes);
    Part part{.address = at.read_address(),
              .first_entry = block.first_entry + within * block.data_block_entries,
              .n_entries = block.data_block_entries,
              .is_page = n_pages > 0,
              .begin = i,
              .end = i + 1};
    if (part.is_page && part.address != kUndefinedAddress) {
      const std::uint64_t page = entry % block.data_block_entries / header.page_entries;
      if (!bit_at(bitmap.view(), within * n_pages + page)) continue;
      part.first_entry += page * header.page_entries;
      part.n_entries = header.page_entries;
      part.address += frame_bytes() + header.block_offset_bytes() + kChecksumBytes +
                      page * part_bytes(header, part);
    }
    add_part(parts, part);
  }
}

void ExtensibleArrayIndex::read_part(const ExtensibleArrayHeader& header, const Part& part,
                                     std::span<const std::uint64_t> numbers,
                                     std::span<Entry> found) const {
  const std::uint64_t entries_bytes = part.n_entries * header.format.bytes();
  Cursor at =
      part.is_page
          ? Cursor(file_, part.address, entries_bytes + kChecksumBytes, kExtensibleArrayPage)
          : read_framed(header, part.address, header.block_offset_bytes() + entries_bytes,
                        kDataBlockName, "EADB");
  if (part.is_page)
    at.verify_checksum(entries_bytes);
  else
    at.skip(header.block_offset_bytes());
  const std::uint64_t first = at.position();
  for (std::size_t i = part.begin; i < part.end; ++i) {
    const std::uint64_t entry = numbers[i] - header.index_block_entries - part.first_entry;
    at.seek(first + entry * header.format.bytes());
    read_entry(header, at, found[i]);
  }
}

void ExtensibleArrayIndex::find(std::span<const std::uint64_t> coordinates,
                                std::span<Entry> found) const {
  const ExtensibleArrayHeader header = read_header();
  if (header.index_block == kUndefinedAddress) return;
  const auto unsorted = numbers_of(coordinates);
  std::vector<std::size_t> order(unsorted.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return unsorted[a] < unsorted[b]; });
  std::vector<std::uint64_t> numbers;
  for (const std::size_t i : order) numbers.push_back(unsorted[i]);
  std::vector<Entry> by_number(found.size());
  find_numbers(header, numbers, by_number);
  for (std::size_t i = 0; i < order.size(); ++i) found[order[i]] = by_number[i];
}

// numbers ascend, so that those of a block or page are next to each other.
void ExtensibleArrayIndex::find_numbers(const ExtensibleArrayHeader& header,
                                        std::span<const std::uint64_t> numbers,
                                        std::span<Entry> found) const {
  std::vector<Visit> visits;
  std::vector<Part> parts;
  read_index_block(header, numbers, found, visits, parts);
  // Of a sound array no block is met twice.
  WalkBound bound(file_, "extensible array");
  visit_fetched(
      file_, std::span<const Visit>(visits),
      [&](const Visit& visit) {
        const auto addresses = header.super_blocks[visit.number].n_data_blocks *
                               static_cast<std::uint64_t>(file_.offset_size());
        return AddressRange{visit.address, frame_bytes() + addresses};
      },
      [&](const Visit& visit) {
        bound.visit(visit.address, 0);
        read_super_block(header, visit, numbers, parts);
      });
  visit_fetched(
      file_, std::span<const Part>(parts),
      [&](const Part& part) { return AddressRange{part.address, part_bytes(header, part)}; },
      [&](const Part& part) {
        bound.visit(part.address, part_bytes(header, part));
        read_part(header, part, numbers, found);
      });
}

}  // namespace

std::unique_ptr<ChunkIndex> make_extensible_array_index(const FileBytes& file, ChunkedLayout layout,
                                                        ChunkGrid grid, bool has_filters) {
  return std::make_unique<ExtensibleArrayIndex>(file, std::move(layout), std::move(grid),
                                                has_filters);
}

}  // namespace cellfeed::hdf5
