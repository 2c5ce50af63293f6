// StoredArray: layout from HDF5, bytes from the map.
#include "cellfeed/format/h5ad/stored_array.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "cellfeed/base/error.h"

namespace cellfeed::format::h5ad {
namespace {

// More than HDF5's own limit of 4 GiB a chunk would not be a chunk.
constexpr std::int64_t kMaxChunkBytes = std::int64_t{1} << 32;

bool is_boolean_enum(hid_t type) {
  if (H5Tget_nmembers(type) != 2 || H5Tget_size(type) != 1) return false;
  std::array<std::string, 2> names;
  for (unsigned i = 0; i < 2; ++i) {
    char* name = H5Tget_member_name(type, i);
    if (name != nullptr) names[i] = name;
    H5free_memory(name);
  }
  std::sort(names.begin(), names.end());
  return names[0] == "FALSE" && names[1] == "TRUE";
}

DType integer_dtype(hid_t type, std::size_t bytes) {
  const bool is_signed = H5Tget_sign(type) == H5T_SGN_2;
  switch (bytes) {
    case 1:
      return is_signed ? DType::kI8 : DType::kU8;
    case 2:
      return is_signed ? DType::kI16 : DType::kU16;
    case 4:
      return is_signed ? DType::kI32 : DType::kU32;
    default:
      return is_signed ? DType::kI64 : DType::kU64;
  }
}

}  // namespace

DType stored_dtype(hid_t type, const std::string& path, const std::string& name) {
  const std::size_t bytes = H5Tget_size(type);
  const H5T_class_t kind = H5Tget_class(type);
  if (kind == H5T_ENUM && is_boolean_enum(type)) return DType::kBool;
  if (kind != H5T_INTEGER && kind != H5T_FLOAT)
    throw_error(ErrorKind::kUnsupported, path,
                "a dataset that is not of numbers is not readable as matrix data: '{}'", name);
  if (bytes > 1 && H5Tget_order(type) != H5T_ORDER_LE)
    throw_error(ErrorKind::kUnsupported, path,
                "big-endian data is not readable; write the file again with anndata: '{}'", name);
  if (kind == H5T_FLOAT && bytes == 2)
    throw_error(ErrorKind::kUnsupported, path,
                "float16 data is not readable; write the matrix as float32: '{}'", name);
  const bool known = kind == H5T_FLOAT ? bytes == 4 || bytes == 8
                                       : bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
  if (!known || H5Tget_precision(type) != bytes * 8)
    throw_error(ErrorKind::kUnsupported, path,
                "numbers of this width are not readable: '{}', {} bytes", name, bytes);
  if (kind == H5T_FLOAT) return bytes == 4 ? DType::kF32 : DType::kF64;
  return integer_dtype(type, bytes);
}

StoredArray::StoredArray(const H5File& file, std::string name, std::int32_t number,
                         std::span<const std::byte> bytes)
    : file_(file), bytes_(bytes), name_(std::move(name)), number_(number) {
  const Hdf5Session session;
  if (object_kind(file_.id(), name_) != ObjectKind::kDataset)
    throw_error(ErrorKind::kCorruptData, file_.path(), "no such dataset: '{}'", name_);
  dataset_ = open_object(file_.id(), file_.path(), name_);
  const Handle space(H5Dget_space(dataset_.get()));
  const std::vector<std::int64_t> shape = extents(space);
  if (shape.size() != 1)
    throw_error(ErrorKind::kCorruptData, file_.path(), "must have one dimension: '{}' has {}",
                name_, shape.size());
  length_ = shape[0];
  const Handle type(H5Dget_type(dataset_.get()));
  dtype_ = stored_dtype(type.get(), file_.path(), name_);
  element_bytes_ = static_cast<std::int64_t>(dtype_bytes(dtype_));
  if (length_ < 0 || length_ > std::numeric_limits<std::int64_t>::max() / 16)
    throw_error(ErrorKind::kCorruptData, file_.path(), "impossible length: '{}': {}", name_,
                length_);
  read_layout(dataset_.get());
}

void StoredArray::read_layout(hid_t dataset) {
  const Handle properties = check_handle(H5Dget_create_plist(dataset), ErrorKind::kCorruptData,
                                         file_.path(), "reading the layout of '" + name_ + "'");
  chunk_elements_ = std::max<std::int64_t>(length_, 1);
  switch (H5Pget_layout(properties.get())) {
    case H5D_CHUNKED:
      return read_chunked_layout(properties.get());
    case H5D_COMPACT:
      return read_whole(dataset);
    default:
      break;
  }
  const haddr_t offset = H5Dget_offset(dataset);
  if (offset == HADDR_UNDEF) return read_whole(dataset);
  contiguous_ = file_bytes(offset + file_.bases().contiguous,
                           static_cast<std::uint64_t>(length_ * element_bytes_), 0)
                    .data();
}

void StoredArray::read_chunked_layout(hid_t properties) {
  hsize_t elements = 0;
  check_hdf5(H5Pget_chunk(properties, 1, &elements), ErrorKind::kCorruptData, file_.path(),
             "reading the chunk size of '" + name_ + "'");
  if (elements == 0 || elements > static_cast<std::uint64_t>(kMaxChunkBytes / element_bytes_))
    throw_error(ErrorKind::kCorruptData, file_.path(), "impossible chunk size: '{}': {} elements",
                name_, elements);
  is_chunked_ = true;
  chunk_elements_ = static_cast<std::int64_t>(elements);
  n_chunks_ = (length_ + chunk_elements_ - 1) / chunk_elements_;
  if (n_chunks_ > file_.size())
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "more chunks than the file has bytes: '{}': {}", name_, n_chunks_);
  places_ = std::make_unique<Place[]>(static_cast<std::size_t>(n_chunks_));
  H5O_info_t object;
  check_hdf5(H5Oget_info2(dataset_.get(), &object, H5O_INFO_BASIC), ErrorKind::kCorruptData,
             file_.path(), "locating the header of '" + name_ + "'");
  index_ = ChunkIndex::open(bytes_, file_.user_block_bytes(), object.addr, file_.path());
  pipeline_ = FilterPipeline(filters_of(properties), static_cast<std::size_t>(element_bytes_),
                             file_.path(), name_);
  H5D_fill_value_t state = H5D_FILL_VALUE_UNDEFINED;
  H5Pfill_value_defined(properties, &state);
  if (state == H5D_FILL_VALUE_USER_DEFINED) {
    const Handle type(H5Dget_type(dataset_.get()));
    std::vector<std::byte> value(static_cast<std::size_t>(element_bytes_));
    H5Pget_fill_value(properties, type.get(), value.data());
    const bool is_zero =
        std::all_of(value.begin(), value.end(), [](std::byte b) { return b == std::byte{0}; });
    fill_value_ = is_zero ? std::vector<std::byte>{} : value;
  }
}

// Datasets without bytes of their own in the file: small, or never written.
void StoredArray::read_whole(hid_t dataset) {
  constexpr std::int64_t kMaxOwnedBytes = std::int64_t{1} << 30;
  if (length_ > kMaxOwnedBytes / element_bytes_)
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "a dataset this long was never written: '{}': {}", name_, length_);
  owned_.resize(static_cast<std::size_t>(length_ * element_bytes_));
  const Handle type(H5Dget_type(dataset));
  if (length_ > 0)
    check_hdf5(H5Dread(dataset, type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, owned_.data()),
               ErrorKind::kCorruptData, file_.path(), "reading '" + name_ + "'");
  contiguous_ = owned_.data();
}

std::span<const std::byte> StoredArray::file_bytes(std::uint64_t offset, std::uint64_t size,
                                                   std::int64_t chunk) const {
  if (offset > bytes_.size() || size > bytes_.size() - offset)
    throw_error(
        ErrorKind::kCorruptData, file_.path(),
        "data lies outside the file (truncated?): '{}', chunk {}: offset {}, {} bytes, file has {}",
        name_, chunk, offset, size, bytes_.size());
  return bytes_.subspan(offset, size);
}

void StoredArray::locate(std::int64_t begin, std::int64_t end) const {
  if (!is_chunked_ || begin >= end) return;
  for (std::int64_t chunk = begin / chunk_elements_; chunk <= (end - 1) / chunk_elements_; ++chunk)
    if (places_[chunk].offset.load(std::memory_order_acquire) == 0) locate_chunk(chunk);
}

std::optional<ChunkPlace> StoredArray::ask_hdf5(std::int64_t chunk) const {
  const Hdf5Session session;
  const hsize_t start = static_cast<hsize_t>(chunk) * static_cast<hsize_t>(chunk_elements_);
  unsigned skipped = 0;
  haddr_t offset = HADDR_UNDEF;
  hsize_t size = 0;
  check_hdf5(H5Dget_chunk_info_by_coord(dataset_.get(), &start, &skipped, &offset, &size),
             ErrorKind::kCorruptData, file_.path(), "locating a chunk of '" + name_ + "'");
  if (offset == HADDR_UNDEF) return std::nullopt;
  if (size > 0xffffffffu)
    throw_error(ErrorKind::kCorruptData, file_.path(), "impossible chunk: '{}', chunk {}: {} bytes",
                name_, chunk, size);
  return ChunkPlace{offset + file_.bases().chunked, static_cast<std::uint32_t>(size), skipped};
}

void StoredArray::locate_chunk(std::int64_t chunk) const {
  const auto found = index_ ? index_->find(static_cast<std::uint64_t>(chunk) *
                                           static_cast<std::uint64_t>(chunk_elements_))
                            : ask_hdf5(chunk);
  Place& place = places_[chunk];
  if (!found) {
    place.offset.store(kNeverWritten, std::memory_order_release);
    return;
  }
  file_bytes(found->offset, found->size, chunk);
  if (found->offset == 0 || (!is_compressed() && found->size != chunk_bytes()))
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "impossible chunk: '{}', chunk {}: offset {}, {} bytes", name_, chunk,
                found->offset, found->size);
  place.size_and_mask.store(found->size | (std::uint64_t{found->skipped} << 32),
                            std::memory_order_relaxed);
  place.offset.store(found->offset, std::memory_order_release);
}

const std::byte* StoredArray::fill_bytes() const {
  const auto make = [&] {
    std::vector<std::byte> chunk(static_cast<std::size_t>(chunk_bytes()), std::byte{0});
    if (fill_value_.empty()) return chunk;
    for (std::size_t at = 0; at < chunk.size(); at += fill_value_.size())
      std::copy(fill_value_.begin(), fill_value_.end(),
                chunk.begin() + static_cast<std::ptrdiff_t>(at));
    return chunk;
  };
  return fill_chunk_.get(make).data();
}

void StoredArray::append_pieces(std::int64_t begin, std::int64_t end,
                                std::vector<RowPiece>& pieces) const {
  if (!is_chunked_) {
    if (begin < end) pieces.push_back({contiguous_ + begin * element_bytes_, end - begin});
    return;
  }
  const std::byte* file = bytes_.data();
  while (begin < end) {
    const std::int64_t chunk = begin / chunk_elements_;
    const std::int64_t within = begin - chunk * chunk_elements_;
    const std::int64_t length = std::min(end - begin, chunk_elements_ - within);
    const std::uint64_t offset = places_[chunk].offset.load(std::memory_order_acquire);
    const std::byte* start = offset == kNeverWritten ? fill_bytes() : file + offset;
    pieces.push_back({start + within * element_bytes_, length});
    begin += length;
  }
}

io::ByteRange StoredArray::stored_range(std::int64_t chunk) const {
  const std::uint64_t offset = places_[chunk].offset.load(std::memory_order_acquire);
  if (offset == kNeverWritten) return {};
  const std::uint64_t size = places_[chunk].size_and_mask.load(std::memory_order_relaxed);
  return {static_cast<std::int64_t>(offset), static_cast<std::int64_t>(size & 0xffffffffu)};
}

void StoredArray::inflate(std::int64_t chunk, std::span<std::byte> out) const {
  const std::uint64_t offset = places_[chunk].offset.load(std::memory_order_acquire);
  if (offset == kNeverWritten) {
    std::memcpy(out.data(), fill_bytes(), out.size());
    return;
  }
  const std::uint64_t place = places_[chunk].size_and_mask.load(std::memory_order_relaxed);
  pipeline_.undo(file_bytes(offset, place & 0xffffffffu, chunk),
                 static_cast<std::uint32_t>(place >> 32), out,
                 {.path = file_.path(), .offset = static_cast<std::int64_t>(offset)});
}

std::vector<std::int64_t> StoredArray::read_integers() const {
  if (is_float(dtype_) || dtype_ == DType::kBool)
    throw_error(ErrorKind::kCorruptData, file_.path(), "must hold integers: '{}' holds {}", name_,
                dtype_name(dtype_));
  std::vector<std::int64_t> integers;
  integers.reserve(static_cast<std::size_t>(length_));
  const auto append = [&](const RowPiece& piece) {
    dispatch_dtype(dtype_, [&](auto zero) {
      using T = decltype(zero);
      for (std::int64_t i = 0; i < piece.length; ++i) {
        T value;
        std::memcpy(&value, piece.data + i * element_bytes_, sizeof(T));
        integers.push_back(static_cast<std::int64_t>(value));
      }
    });
  };
  locate(0, length_);
  std::vector<std::byte> inflated;
  for (std::int64_t begin = 0; begin < length_; begin += chunk_elements_) {
    const std::int64_t end = std::min(begin + chunk_elements_, length_);
    if (is_compressed()) {
      inflated.resize(static_cast<std::size_t>(chunk_bytes()));
      inflate(begin / chunk_elements_, inflated);
      append({inflated.data(), end - begin});
    } else {
      std::vector<RowPiece> pieces;
      append_pieces(begin, end, pieces);
      for (const RowPiece& piece : pieces) append(piece);
    }
  }
  return integers;
}

}  // namespace cellfeed::format::h5ad
