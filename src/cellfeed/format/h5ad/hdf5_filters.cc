// The filters of HDF5 that this version undoes.
#include "cellfeed/format/h5ad/hdf5_filters.h"

#include <fmt/ranges.h>
#include <hdf5.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "cellfeed/base/error.h"
#include "cellfeed/matrix/buffer.h"

namespace cellfeed::format::h5ad {
namespace {

bool is_codec(int filter) {
  return filter == kDeflateFilter || filter == kLzfFilter || filter == kLz4Filter ||
         filter == kZstdFilter;
}

void decode(int filter, std::span<const std::byte> in, std::span<std::byte> out,
            const io::ChunkOrigin& origin) {
  switch (filter) {
    case kDeflateFilter:
      return io::inflate_zlib(in, out, origin);
    case kLzfFilter:
      return io::decode_lzf(in, out, origin);
    case kLz4Filter:
      return io::decode_lz4_hdf5(in, out, origin);
    case kZstdFilter:
      return io::decode_zstd(in, out, origin);
    default:
      throw Error(ErrorKind::kInternal, "not a codec");
  }
}

bool is_skipped(std::uint32_t skipped, std::size_t i) {
  return i < 32 && ((skipped >> i) & 1u) != 0;
}

constexpr std::size_t kUnknownSize = SIZE_MAX;

// H5Z_func_t: h5py keeps the chunk's size in the third client value, but for strings of variable
// length, which have none.
std::size_t decode_lzf_for_hdf5(unsigned flags, std::size_t n_values, const unsigned values[],
                                std::size_t bytes, std::size_t* buffer_bytes, void** buffer) {
  if ((flags & H5Z_FLAG_REVERSE) == 0) return 0;  // writing is not offered
  const std::span<const std::byte> stored(static_cast<const std::byte*>(*buffer), bytes);
  const std::size_t size =
      n_values > 2 && values[2] > 0 ? values[2] : io::lzf_decoded_bytes(stored);
  void* out = std::malloc(std::max<std::size_t>(size, 1));
  if (out == nullptr) return 0;
  try {
    io::decode_lzf(stored, {static_cast<std::byte*>(out), size});
  } catch (const Error&) {
    std::free(out);
    return 0;
  }
  std::free(*buffer);
  *buffer = out;
  *buffer_bytes = size;
  return size;
}

}  // namespace

std::string filter_name(int filter) {
  switch (filter) {
    case kDeflateFilter:
      return "gzip";
    case kShuffleFilter:
      return "shuffle";
    case kFletcher32Filter:
      return "fletcher32";
    case kLzfFilter:
      return "lzf";
    case kLz4Filter:
      return "lz4";
    case kZstdFilter:
      return "zstd";
    default:
      return "";
  }
}

void throw_unreadable_filter(int filter, const std::string& path, const std::string& name) {
  const std::string known = filter_name(filter);
  throw_error(ErrorKind::kUnsupported, path,
              "this HDF5 filter is not readable here; write the file again with "
              "compression=\"gzip\" or without: filter {}{} on '{}'",
              filter, known.empty() ? "" : " (" + known + ")", name);
}

std::vector<int> filters_of(hid_t properties) {
  std::vector<int> filters;
  for (int i = 0; i < H5Pget_nfilters(properties); ++i) {
    unsigned flags = 0;
    unsigned config = 0;
    std::size_t n_values = 0;
    filters.push_back(H5Pget_filter2(properties, static_cast<unsigned>(i), &flags, &n_values,
                                     nullptr, 0, nullptr, &config));
  }
  return filters;
}

FilterPipeline::FilterPipeline(std::vector<int> filters, std::size_t element_bytes,
                               const std::string& path, const std::string& name)
    : filters_(std::move(filters)), element_bytes_(element_bytes) {
  int codecs = 0;
  for (const int filter : filters_) {
    if (filter_name(filter).empty()) throw_unreadable_filter(filter, path, name);
    codecs += is_codec(filter);
  }
  if (codecs > 1 || filters_.size() > 32)
    throw_error(ErrorKind::kUnsupported, path,
                "several compressing filters on one dataset are not readable: '{}'", name);
}

std::string FilterPipeline::name() const {
  if (filters_.empty()) return "none";
  std::vector<std::string> names;
  for (const int filter : filters_) names.push_back(filter_name(filter));
  return fmt::format("{}", fmt::join(names, "+"));
}

std::int64_t FilterPipeline::n_buffers() const {
  const auto steps = std::count_if(filters_.begin(), filters_.end(),
                                   [](int filter) { return filter != kFletcher32Filter; });
  return std::max<std::int64_t>(steps, 1);
}

void FilterPipeline::undo(std::span<const std::byte> stored, std::uint32_t skipped,
                          std::span<std::byte> out, const io::ChunkOrigin& origin) const {
  // Sizes before each filter: known up to the codec, whose output has any size.
  std::vector<std::size_t> size_before(filters_.size());
  std::size_t size = out.size();
  for (std::size_t i = 0; i < filters_.size(); ++i) {
    size_before[i] = size;
    if (is_skipped(skipped, i) || size == kUnknownSize) continue;
    if (is_codec(filters_[i]))
      size = kUnknownSize;
    else if (filters_[i] == kFletcher32Filter)
      size += 4;
  }
  matrix::Buffer<std::byte> current;
  std::span<const std::byte> in = stored;
  for (std::size_t i = filters_.size(); i-- > 0;) {
    if (is_skipped(skipped, i)) continue;
    if (filters_[i] == kFletcher32Filter) {
      in = io::check_fletcher32(in, origin);
      continue;
    }
    const std::size_t target_size = size_before[i] == kUnknownSize ? in.size() : size_before[i];
    if (!is_codec(filters_[i]) && target_size != in.size())
      throw_error(ErrorKind::kCorruptData, std::string(origin.path),
                  "a chunk has the wrong size: {} bytes, expected {}, offset {}", in.size(),
                  target_size, origin.offset);
    // The last step writes straight to out.
    bool is_last = true;
    for (std::size_t j = 0; j < i; ++j) is_last = is_last && is_skipped(skipped, j);
    matrix::Buffer<std::byte> next(is_last ? 0 : target_size);
    const std::span<std::byte> target = is_last ? out : next.span();
    if (target.size() != target_size)
      throw_error(ErrorKind::kCorruptData, std::string(origin.path),
                  "a chunk has the wrong size: {} bytes, expected {}, offset {}", target_size,
                  target.size(), origin.offset);
    if (filters_[i] == kShuffleFilter)
      io::unshuffle(in, target, element_bytes_);
    else
      decode(filters_[i], in, target, origin);
    if (is_last) return;
    current = std::move(next);
    in = target;
  }
  if (in.size() != out.size())
    throw_error(ErrorKind::kCorruptData, std::string(origin.path),
                "a chunk has the wrong size: {} bytes, expected {}, offset {}", in.size(),
                out.size(), origin.offset);
  if (!in.empty()) std::memcpy(out.data(), in.data(), in.size());
}

void register_read_filters() {
  if (H5Zfilter_avail(kLzfFilter) > 0) return;
  const H5Z_class2_t definition = {H5Z_CLASS_T_VERS, kLzfFilter,         0, 1, "lzf", nullptr,
                                   nullptr,          decode_lzf_for_hdf5};
  H5Zregister(&definition);
}

}  // namespace cellfeed::format::h5ad
