// The fixed array index. HDF5 File Format Specification 4.0, VII.C.
#include "cellfeed/base/checked_size.h"
#include "cellfeed/hdf5/chunk_index_kinds.h"

namespace cellfeed::hdf5 {
namespace {

constexpr std::string_view kFixedArrayHeader = "fixed array header";
constexpr std::string_view kFixedArrayBlock = "fixed array data block";
constexpr std::string_view kFixedArrayPage = "fixed array data block page";

struct FixedArrayHeader {
  ArrayEntryFormat format;
  int client = 0;
  std::uint64_t page_entries = 0;
  std::uint64_t n_entries = 0;
  Address block = kUndefinedAddress;

  bool is_paged() const { return n_entries > page_entries; }
  std::uint64_t n_pages() const {
    return n_entries / page_entries + (n_entries % page_entries != 0 ? 1 : 0);
  }
};

// A page of the data block, and the chunks [begin, end) that it has entries of.
struct Page {
  Address address = 0;
  std::uint64_t first_entry = 0;
  std::uint64_t n_entries = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
};

class FixedArrayIndex final : public ChunkIndex {
 public:
  FixedArrayIndex(const FileBytes& file, ChunkedLayout layout, ChunkGrid grid, bool has_filters)
      : ChunkIndex(file, std::move(layout), std::move(grid), has_filters),
        counts_(grid_.max_counts()) {}

 protected:
  void find(std::span<const std::uint64_t> coordinates, std::span<Entry> found) const override;

 private:
  FixedArrayHeader read_header() const;
  Cursor read_block(const FixedArrayHeader& header) const;
  std::vector<Page> pages_of(const FixedArrayHeader& header, Cursor& block,
                             std::span<const std::uint64_t> numbers) const;
  void read_entry(const FixedArrayHeader& header, Cursor& entries, Entry& entry) const {
    header.format.read(entries, layout_.chunk_bytes, entry.address, entry.n_bytes, entry.skipped);
  }

  const std::vector<std::uint64_t> counts_;
};

FixedArrayHeader FixedArrayIndex::read_header() const {
  constexpr int kMaxPageBits = 32;
  const auto bytes = 8 + static_cast<std::uint64_t>(file_.length_size() + file_.offset_size());
  Cursor at(file_, layout_.address, bytes + kChecksumBytes, kFixedArrayHeader);
  at.verify_checksum(bytes);
  at.expect_signature("FAHD");
  if (const int version = at.u8(); version != 0) at.fail("version {} is not known", version);
  const int client = at.u8();
  FixedArrayHeader header{.format = ArrayEntryFormat(at, client, at.u8()), .client = client};
  const int page_bits = at.u8();
  if (page_bits > kMaxPageBits) at.fail("pages of 2^{} entries", page_bits);
  header.page_entries = std::uint64_t{1} << page_bits;
  header.n_entries = at.read_length();
  header.block = at.read_address();
  // Pages lie in the file whether written or not.
  if (header.block != kUndefinedAddress && header.n_entries > file_.size() / header.format.bytes())
    at.fail("{} entries, more than the file has room for", header.n_entries);
  return header;
}

// The whole data block, or what stands before its pages; at the first entry or at the bitmap.
Cursor FixedArrayIndex::read_block(const FixedArrayHeader& header) const {
  const auto prefix = 6 + static_cast<std::uint64_t>(file_.offset_size());
  const std::uint64_t content =
      header.is_paged() ? (header.n_pages() + 7) / 8 : header.n_entries * header.format.bytes();
  Cursor at(file_, header.block, prefix + content + kChecksumBytes, kFixedArrayBlock);
  at.verify_checksum(prefix + content);
  at.expect_signature("FADB");
  if (const int version = at.u8(); version != 0) at.fail("version {} is not known", version);
  if (const int client = at.u8(); client != header.client)
    at.fail("its client is {}, that of its header {}", client, header.client);
  if (const Address owner = at.read_address(); owner != layout_.address)
    at.fail("it belongs to the header at {}", owner);
  return at;
}

// numbers ascend, so that those of a page are next to each other. Pages never written are left out.
std::vector<Page> FixedArrayIndex::pages_of(const FixedArrayHeader& header, Cursor& block,
                                            std::span<const std::uint64_t> numbers) const {
  const Bytes bitmap = block.bytes((header.n_pages() + 7) / 8);
  const Address first_page = block.address() + block.size();
  const std::uint64_t page_bytes = header.page_entries * header.format.bytes() + kChecksumBytes;
  std::vector<Page> pages;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::uint64_t number = numbers[i] / header.page_entries;
    if (!bit_at(bitmap.view(), number)) continue;
    const std::uint64_t first_entry = number * header.page_entries;
    if (!pages.empty() && pages.back().first_entry == first_entry) {
      pages.back().end = i + 1;
      continue;
    }
    pages.push_back({.address = first_page + number * page_bytes,
                     .first_entry = first_entry,
                     .n_entries = std::min(header.page_entries, header.n_entries - first_entry),
                     .begin = i,
                     .end = i + 1});
  }
  return pages;
}

void FixedArrayIndex::find(std::span<const std::uint64_t> coordinates,
                           std::span<Entry> found) const {
  const FixedArrayHeader header = read_header();
  if (header.block == kUndefinedAddress) return;
  const auto numbers = linear_numbers(file_, coordinates, counts_);
  Cursor block = read_block(header);
  if (numbers.back() >= header.n_entries)
    block.fail("chunk {} of {} entries", numbers.back(), header.n_entries);
  const std::uint64_t entry_bytes = header.format.bytes();
  if (!header.is_paged()) {
    const std::uint64_t first = block.position();
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      block.seek(first + numbers[i] * entry_bytes);
      read_entry(header, block, found[i]);
    }
    return;
  }
  const auto bytes_of = [&](const Page& page) {
    return page.n_entries * entry_bytes + kChecksumBytes;
  };
  visit_fetched(
      file_, std::span<const Page>(pages_of(header, block, numbers)),
      [&](const Page& page) { return AddressRange{page.address, bytes_of(page)}; },
      [&](const Page& page) {
        Cursor at(file_, page.address, bytes_of(page), kFixedArrayPage);
        at.verify_checksum(page.n_entries * entry_bytes);
        for (std::size_t i = page.begin; i < page.end; ++i) {
          at.seek((numbers[i] - page.first_entry) * entry_bytes);
          read_entry(header, at, found[i]);
        }
      });
}

}  // namespace

std::unique_ptr<ChunkIndex> make_fixed_array_index(const FileBytes& file, ChunkedLayout layout,
                                                   ChunkGrid grid, bool has_filters) {
  return std::make_unique<FixedArrayIndex>(file, std::move(layout), std::move(grid), has_filters);
}

}  // namespace cellfeed::hdf5
