// FilterPipeline: from the stored bytes back through the filters; the last step writes to where the
// chunk is wanted.
#include "cellfeed/hdf5/filter_pipeline.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "cellfeed/base/error.h"

namespace cellfeed::hdf5 {
namespace {

constexpr std::uint32_t kFletcherBytes = 4;

struct KnownFilter {
  std::uint16_t id;
  std::string_view name;
  bool is_readable;
  bool is_codec;  // its output has any size
  // No more bytes than this come of one stored byte.
  std::uint64_t max_expansion;
};
constexpr KnownFilter kKnownFilters[] = {
    {kDeflateFilter, "gzip", true, true, 1100},
    {kShuffleFilter, "shuffle", true, false, 1},
    {kFletcher32Filter, "fletcher32", true, false, 1},
    {kSzipFilter, "szip", false, true, 1},
    {kNbitFilter, "n-bit", false, true, 1},
    {kScaleOffsetFilter, "scale-offset", false, true, 1},
    {307, "bzip2", false, true, 1},
    {kLzfFilter, "lzf", true, true, 100},
    {kBloscFilter, "blosc", true, true, 1 << 16},  // zstd inside
    {kLz4Filter, "lz4", true, true, 300},
    {kBitshuffleFilter, "bitshuffle", true, true, 1 << 16},
    {32013, "zfp", false, true, 1},
    {kZstdFilter, "zstd", true, true, 1 << 16},  // 128 KiB of one byte repeated take three bytes
    {32017, "sz", false, true, 1},
    {32024, "sz3", false, true, 1},
    {kBlosc2Filter, "blosc2", false, true, 1},
};

const KnownFilter* find_filter(std::uint16_t id) {
  const auto* found = std::find_if(std::begin(kKnownFilters), std::end(kKnownFilters),
                                   [&](const KnownFilter& filter) { return filter.id == id; });
  return found == std::end(kKnownFilters) ? nullptr : found;
}

bool is_codec(std::uint16_t id) { return find_filter(id)->is_codec; }

[[noreturn]] void throw_wrong_size(std::size_t size, std::size_t expected,
                                   const io::ChunkOrigin& origin) {
  throw_error(ErrorKind::kCorruptData, std::string(origin.path),
              "a chunk has the wrong size: {} bytes, expected {}, offset {}", size, expected,
              origin.offset);
}

bool is_skipped(std::uint32_t skipped, std::size_t i) { return ((skipped >> i) & 1u) != 0; }

// Client values: bitshuffle's version (2), bytes of an element, elements of a block, codec.
io::BitshuffleOptions bitshuffle_options(const FilterDescription& filter) {
  constexpr std::size_t kElementBytes = 2, kBlock = 3, kCodec = 4;
  const auto value = [&](std::size_t i) {
    return i < filter.client_values.size() ? filter.client_values[i] : 0;
  };
  constexpr io::BitshuffleCodec kCodecs[] = {io::BitshuffleCodec::kNone, io::BitshuffleCodec::kNone,
                                             io::BitshuffleCodec::kLz4, io::BitshuffleCodec::kZstd};
  return {.element_bytes = value(kElementBytes),
          .block_elements = value(kBlock),
          .codec = kCodecs[value(kCodec)]};
}

// Every number that bitshuffle_options looks up is one that it knows.
bool is_readable(const FilterDescription& filter) {
  constexpr std::size_t kCodec = 4;
  constexpr std::uint32_t kLargestCodec = 3;
  if (!is_readable_filter(filter.id)) return false;
  return filter.id != kBitshuffleFilter || filter.client_values.size() <= kCodec ||
         (filter.client_values[kCodec] <= kLargestCodec && filter.client_values[kCodec] != 1);
}

}  // namespace

std::string_view filter_name(std::uint16_t id) {
  const KnownFilter* known = find_filter(id);
  return known == nullptr ? std::string_view() : known->name;
}

bool is_readable_filter(std::uint16_t id) {
  const KnownFilter* known = find_filter(id);
  return known != nullptr && known->is_readable;
}

void throw_unreadable_filter(const FilterDescription& filter, const std::string& path,
                             const std::string& dataset) {
  // What a file calls its filter may be anything.
  std::string stored;
  for (const char c : filter.name.substr(0, 60)) stored.push_back(c >= ' ' && c <= '~' ? c : '?');
  const std::string_view known = filter_name(filter.id);
  throw_error(ErrorKind::kUnsupported, path,
              "this HDF5 filter is not readable here; write the file again with "
              "compression=\"gzip\" or without: filter {} ({}) on '{}'",
              filter.id,
              !known.empty()    ? known
              : !stored.empty() ? std::string_view(stored)
                                : "without a name",
              dataset);
}

FilterPipeline::FilterPipeline(std::vector<FilterDescription> filters, std::size_t element_bytes,
                               const std::string& path, const std::string& dataset)
    : filters_(std::move(filters)), element_bytes_(element_bytes) {
  int codecs = 0;
  for (const FilterDescription& filter : filters_) {
    if (!is_readable(filter)) throw_unreadable_filter(filter, path, dataset);
    if (filter.id == kShuffleFilter && shuffled_bytes(filter) == 0)
      throw_error(ErrorKind::kCorruptData, path, "a shuffle of elements without bytes: '{}'",
                  dataset);
    codecs += is_codec(filter.id);
  }
  constexpr std::size_t kMaxFilters = 32;  // bits of a mask
  if (codecs > 1 || filters_.size() > kMaxFilters)
    throw_error(ErrorKind::kUnsupported, path,
                "several compressing filters on one dataset are not readable; write the file again "
                "with one: '{}' has {}",
                dataset, name());
}

std::string FilterPipeline::name() const {
  if (filters_.empty()) return "none";
  std::vector<std::string_view> names;
  for (const FilterDescription& filter : filters_) names.push_back(filter_name(filter.id));
  return fmt::format("{}", fmt::join(names, "+"));
}

std::int64_t FilterPipeline::n_buffers() const {
  const auto steps =
      std::count_if(filters_.begin(), filters_.end(),
                    [](const FilterDescription& filter) { return filter.id != kFletcher32Filter; });
  return std::max<std::int64_t>(steps, 1);
}

// Its only client value is the size of an element.
std::size_t FilterPipeline::shuffled_bytes(const FilterDescription& filter) const {
  return filter.client_values.empty() ? element_bytes_ : filter.client_values.front();
}

void FilterPipeline::check_expansion(std::uint64_t stored_bytes, std::uint64_t chunk_bytes,
                                     const io::ChunkOrigin& origin) const {
  std::uint64_t most = 1;
  for (const FilterDescription& filter : filters_)
    most = std::max(most, find_filter(filter.id)->max_expansion);
  if (chunk_bytes / most > stored_bytes)
    throw_error(ErrorKind::kCorruptData, std::string(origin.path),
                "a chunk cannot be as large as the file says: {} bytes from {} stored, offset {}",
                chunk_bytes, stored_bytes, origin.offset);
}

void FilterPipeline::decode(const FilterDescription& filter, std::span<const std::byte> in,
                            std::span<std::byte> out, const io::ChunkOrigin& origin) const {
  switch (filter.id) {
    case kDeflateFilter:
      return io::inflate_zlib(in, out, origin);
    case kShuffleFilter:
      if (in.size() != out.size()) throw_wrong_size(in.size(), out.size(), origin);
      return io::unshuffle(in, out, shuffled_bytes(filter));
    case kLzfFilter:
      return io::decode_lzf(in, out, origin);
    case kBloscFilter:
      return io::decode_blosc(in, out, origin);
    case kLz4Filter:
      return io::decode_lz4_hdf5(in, out, origin);
    case kBitshuffleFilter:
      return io::decode_bitshuffle(in, out, bitshuffle_options(filter), origin);
    case kZstdFilter:
      return io::decode_zstd(in, out, origin);
    default:
      throw Error(ErrorKind::kInternal, "not a filter that is undone");
  }
}

void FilterPipeline::undo(std::span<const std::byte> stored, std::uint32_t skipped,
                          std::span<std::byte> out, const io::ChunkOrigin& origin) const {
  // Sizes before each filter: known up to the codec, whose output has any size.
  std::optional<std::size_t> sizes[33];
  sizes[0] = out.size();
  std::size_t first = filters_.size();  // the filter that was applied first
  for (std::size_t i = filters_.size(); i-- > 0;)
    if (!is_skipped(skipped, i) && filters_[i].id != kFletcher32Filter) first = i;
  for (std::size_t i = 0; i < filters_.size(); ++i) {
    sizes[i + 1] = sizes[i];
    if (is_skipped(skipped, i) || !sizes[i]) continue;
    if (is_codec(filters_[i].id))
      sizes[i + 1].reset();
    else if (filters_[i].id == kFletcher32Filter)
      sizes[i + 1] = *sizes[i] + kFletcherBytes;
  }
  std::unique_ptr<std::byte[]> current;
  std::span<const std::byte> in = stored;
  for (std::size_t i = filters_.size(); i-- > 0;) {
    if (is_skipped(skipped, i)) continue;
    if (filters_[i].id == kFletcher32Filter) {
      in = io::check_fletcher32(in, origin);
      continue;
    }
    const std::size_t target_size = sizes[i].value_or(in.size());
    // The size of what a file promises is the chunk's and four bytes a checksum: never more.
    if (i == first && target_size == out.size()) {
      decode(filters_[i], in, out, origin);
      in = out;
      continue;
    }
    auto next = std::make_unique_for_overwrite<std::byte[]>(target_size);
    decode(filters_[i], in, {next.get(), target_size}, origin);
    current = std::move(next);
    in = {current.get(), target_size};
  }
  if (in.size() != out.size()) throw_wrong_size(in.size(), out.size(), origin);
  if (!in.empty() && in.data() != out.data()) std::memcpy(out.data(), in.data(), in.size());
}

}  // namespace cellfeed::hdf5
