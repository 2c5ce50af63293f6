// HDF5 datasets that grow at the end.
#include "cellfeed/format/h5ad/growing_array.h"

#include <libdeflate.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/format/h5ad/hdf5_write.h"

namespace cellfeed::format::h5ad {
namespace {

Handle create_growing(const WriteTarget& target, const std::string& name, hid_t type,
                      int gzip_level, std::int64_t chunk_elements) {
  const hsize_t length = 0;
  const hsize_t unlimited = H5S_UNLIMITED;
  const auto chunk = static_cast<hsize_t>(chunk_elements);
  const Handle space(H5Screate_simple(1, &length, &unlimited));
  const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
  // The same data give the same bytes.
  H5Pset_obj_track_times(properties.get(), false);
  H5Pset_chunk(properties.get(), 1, &chunk);
  if (gzip_level > 0)
    H5Pset_deflate(properties.get(), static_cast<unsigned>(std::min(gzip_level, 9)));
  const Handle links(H5Pcreate(H5P_LINK_CREATE));
  H5Pset_create_intermediate_group(links.get(), 1);
  H5Pset_char_encoding(links.get(), H5T_CSET_UTF8);
  return check_written(H5Dcreate2(target.file, name.c_str(), type, space.get(), links.get(),
                                  properties.get(), H5P_DEFAULT),
                       target.path, "making dataset '" + name + "'");
}

bool holds(DType dtype, std::int64_t low, std::int64_t high) {
  return dispatch_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>)
      return low >= static_cast<std::int64_t>(std::numeric_limits<T>::min()) &&
             high <= static_cast<std::int64_t>(std::numeric_limits<T>::max());
    else
      return false;
  });
}

void append_narrowed(GrowingArray& array, std::span<const std::int64_t> values) {
  dispatch_dtype(array.dtype(), [&](auto zero) {
    using T = decltype(zero);
    std::vector<std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>> narrowed(
        values.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      narrowed[i] = static_cast<typename decltype(narrowed)::value_type>(values[i]);
    array.append(narrowed.data(), std::ssize(values));
  });
}

}  // namespace

GrowingArray::GrowingArray(const WriteTarget& target, std::string name, DType dtype)
    : target_(target),
      name_(std::move(name)),
      dtype_(dtype),
      element_bytes_(static_cast<std::int64_t>(dtype_bytes(dtype))) {
  buffer_.resize(static_cast<std::size_t>(target_.chunk_elements * element_bytes_));
}

void GrowingArray::create_dataset(std::int64_t chunk_elements) {
  const Handle type = file_type(dtype_);
  dataset_ = create_growing(target_, name_, type.get(), target_.gzip_level, chunk_elements);
}

void GrowingArray::append(const void* values, std::int64_t n) {
  const auto* from = static_cast<const std::byte*>(values);
  while (n > 0) {
    const std::int64_t used = length_ - chunk_begin_;
    const std::int64_t taken = std::min(n, target_.chunk_elements - used);
    std::memcpy(buffer_.data() + used * element_bytes_, from,
                static_cast<std::size_t>(taken * element_bytes_));
    length_ += taken;
    from += taken * element_bytes_;
    n -= taken;
    if (length_ - chunk_begin_ == target_.chunk_elements) write_chunk(target_.chunk_elements);
  }
}

void GrowingArray::finish() {
  if (length_ > chunk_begin_) return write_chunk(dataset_ ? target_.chunk_elements : length_);
  if (dataset_) return;
  const Hdf5Session session;
  create_dataset(1);
}

std::span<const std::byte> GrowingArray::compress(std::span<const std::byte> chunk) {
  if (target_.gzip_level == 0) return chunk;
  struct Free {
    void operator()(libdeflate_compressor* c) const { libdeflate_free_compressor(c); }
  };
  thread_local int level = 0;
  thread_local std::unique_ptr<libdeflate_compressor, Free> compressor;
  if (level != target_.gzip_level) {
    compressor.reset(libdeflate_alloc_compressor(target_.gzip_level));
    if (!compressor) throw_invalid("gzip_level must be between 1 and 12: {}", target_.gzip_level);
    level = target_.gzip_level;
  }
  compressed_.resize(libdeflate_zlib_compress_bound(compressor.get(), chunk.size()));
  const std::size_t size = libdeflate_zlib_compress(compressor.get(), chunk.data(), chunk.size(),
                                                    compressed_.data(), compressed_.size());
  if (size == 0)
    throw Error(ErrorKind::kInternal, "libdeflate could not compress a chunk", target_.path);
  return std::span(compressed_).first(size);
}

void GrowingArray::write_chunk(std::int64_t chunk_elements) {
  const std::int64_t used = length_ - chunk_begin_;
  std::fill(buffer_.begin() + used * element_bytes_, buffer_.end(), std::byte{0});
  const auto chunk = std::span<const std::byte>(buffer_).first(
      static_cast<std::size_t>(chunk_elements * element_bytes_));
  const std::span<const std::byte> bytes = compress(chunk);
  const std::string operation = "writing '" + name_ + "'";
  const Hdf5Session session;
  if (!dataset_) create_dataset(chunk_elements);
  const auto extent = static_cast<hsize_t>(length_);
  const auto start = static_cast<hsize_t>(chunk_begin_);
  check_write(H5Dset_extent(dataset_.get(), &extent), target_.path, operation);
  check_write(H5Dwrite_chunk(dataset_.get(), H5P_DEFAULT, 0, &start, bytes.size(), bytes.data()),
              target_.path, operation);
  chunk_begin_ = length_;
}

GrowingIntegers::GrowingIntegers(const WriteTarget& target, std::string name, DType narrowest)
    : target_(target),
      name_(std::move(name)),
      array_(std::make_unique<GrowingArray>(target, name_, narrowest)) {}

void GrowingIntegers::append(std::span<const std::int64_t> values) {
  if (values.empty()) return;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  if (!holds(array_->dtype(), *low, *high)) {
    for (const DType wider : {DType::kI16, DType::kI32, DType::kI64})
      if (dtype_bytes(wider) > dtype_bytes(array_->dtype()) && holds(wider, *low, *high)) {
        widen(wider);
        break;
      }
  }
  append_narrowed(*array_, values);
}

void GrowingIntegers::widen(DType dtype) {
  constexpr std::int64_t kPieceElements = 1 << 18;
  array_->finish();
  const std::string narrow_name = name_ + ".narrow";
  {
    const Hdf5Session session;
    move_link(target_.file, target_.path, name_, narrow_name);
  }
  auto wide = std::make_unique<GrowingArray>(target_, name_, dtype);
  std::vector<std::int64_t> piece;
  for (std::int64_t begin = 0; begin < array_->length(); begin += kPieceElements) {
    const auto start = static_cast<hsize_t>(begin);
    const auto count = static_cast<hsize_t>(std::min(kPieceElements, array_->length() - begin));
    piece.resize(count);
    {
      const Hdf5Session session;
      const Handle memory(H5Screate_simple(1, &count, nullptr));
      const Handle space(H5Dget_space(array_->dataset()));
      H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, &start, nullptr, &count, nullptr);
      check_write(H5Dread(array_->dataset(), H5T_NATIVE_INT64, memory.get(), space.get(),
                          H5P_DEFAULT, piece.data()),
                  target_.path, "reading back '" + name_ + "'");
    }
    append_narrowed(*wide, piece);
  }
  const Hdf5Session session;
  check_write(H5Ldelete(target_.file, narrow_name.c_str(), H5P_DEFAULT), target_.path,
              "removing '" + narrow_name + "'");
  array_ = std::move(wide);
}

void GrowingIntegers::finish() { array_->finish(); }

GrowingStrings::GrowingStrings(const WriteTarget& target, std::string name)
    : target_(target), name_(std::move(name)) {}

void GrowingStrings::append(std::string_view text) {
  if (text.find('\0') != std::string_view::npos)
    throw_error(ErrorKind::kInvalidArgument, target_.path,
                "a text holds a zero byte, which HDF5 cannot store: '{}', row {}", name_, length_);
  starts_.push_back(characters_.size());
  characters_.insert(characters_.end(), text.begin(), text.end());
  characters_.push_back('\0');
  ++length_;
  if (std::ssize(starts_) == target_.chunk_elements) write_pending(target_.chunk_elements);
}

void GrowingStrings::finish() {
  if (!starts_.empty() || !dataset_) write_pending(std::max<std::int64_t>(1, std::ssize(starts_)));
}

void GrowingStrings::write_pending(std::int64_t chunk_elements) {
  const std::string operation = "writing '" + name_ + "'";
  const Hdf5Session session;
  const Handle type = string_type();
  if (!dataset_) dataset_ = create_growing(target_, name_, type.get(), 0, chunk_elements);
  if (starts_.empty()) return;
  std::vector<const char*> pointers;
  pointers.reserve(starts_.size());
  for (const std::size_t start : starts_) pointers.push_back(characters_.data() + start);
  const auto extent = static_cast<hsize_t>(length_);
  const auto count = static_cast<hsize_t>(starts_.size());
  const hsize_t start = extent - count;
  check_write(H5Dset_extent(dataset_.get(), &extent), target_.path, operation);
  const Handle memory(H5Screate_simple(1, &count, nullptr));
  const Handle space(H5Dget_space(dataset_.get()));
  H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, &start, nullptr, &count, nullptr);
  check_write(H5Dwrite(dataset_.get(), type.get(), memory.get(), space.get(), H5P_DEFAULT,
                       static_cast<const void*>(pointers.data())),
              target_.path, operation);
  characters_.clear();
  starts_.clear();
}

}  // namespace cellfeed::format::h5ad
