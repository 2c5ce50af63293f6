// StoredArray: layout and places of chunks from the parser, elements from the map.
#include "cellfeed/format/h5ad/stored_array.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <new>
#include <numeric>

#include "cellfeed/base/error.h"

namespace cellfeed::format::h5ad {
namespace {

// More than HDF5's own limit of 4 GiB a chunk would not be a chunk.
constexpr std::uint64_t kMaxChunkBytes = std::uint64_t{1} << 32;
constexpr std::int64_t kMaxLength = std::numeric_limits<std::int64_t>::max() / 16;

hdf5::Dataset find_dataset(const H5File& file, const std::string& name) {
  const auto object = file.hdf5().find(name);
  if (!object || object->kind() != hdf5::ObjectKind::kDataset)
    throw_error(ErrorKind::kCorruptData, file.path(), "no such dataset: '{}'", name);
  hdf5::Dataset dataset = object->dataset();
  if (dataset.shape().size() != 1)
    throw_error(ErrorKind::kCorruptData, file.path(), "must have one dimension: '{}' has {}", name,
                dataset.shape().size());
  return dataset;
}

}  // namespace

StoredArray::StoredArray(const H5File& file, const std::string& name, std::int32_t key,
                         std::span<const std::byte> bytes)
    : file_(file),
      bytes_(bytes),
      name_(name),
      key_(key),
      stored_(find_dataset(file, name)),
      number_(stored_number(stored_.dataset().datatype(), file.path(), name)) {
  if (stored_.shape()[0] > static_cast<std::uint64_t>(kMaxLength))
    throw_error(ErrorKind::kCorruptData, file_.path(), "impossible length: '{}': {}", name_,
                stored_.shape()[0]);
  length_ = static_cast<std::int64_t>(stored_.shape()[0]);
  read_layout();
}

void StoredArray::read_layout() {
  const hdf5::Layout& layout = stored_.dataset().layout();
  if (const auto* chunked = std::get_if<hdf5::ChunkedLayout>(&layout))
    return read_chunked_layout(*chunked);
  chunk_elements_ = std::max<std::int64_t>(length_, 1);
  const auto* contiguous = std::get_if<hdf5::ContiguousLayout>(&layout);
  if (contiguous == nullptr || contiguous->address == hdf5::kUndefinedAddress) return read_whole();
  const hdf5::FileBytes& file = stored_.dataset().bytes();
  if (!file.holds(contiguous->address, stored_.n_bytes()))
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "data lies outside the file (truncated?): '{}': address {}, {} bytes, file has {}",
                name_, contiguous->address, stored_.n_bytes(), bytes_.size());
  contiguous_ = file_bytes(static_cast<std::uint64_t>(file.source_offset(contiguous->address)),
                           stored_.n_bytes())
                    .data();
}

void StoredArray::read_chunked_layout(const hdf5::ChunkedLayout& layout) {
  if (layout.chunk_bytes > kMaxChunkBytes)
    throw_error(ErrorKind::kCorruptData, file_.path(), "impossible chunk size: '{}': {} bytes",
                name_, layout.chunk_bytes);
  chunk_elements_ = static_cast<std::int64_t>(layout.chunk_shape[0]);
  const std::uint64_t n_chunks = stored_.chunk_index()->grid().n_chunks();
  if (n_chunks > bytes_.size())
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "more chunks than the file has bytes: '{}': {}", name_, n_chunks);
  n_chunks_ = static_cast<std::int64_t>(n_chunks);
  places_.reset(static_cast<Place*>(
      std::calloc(std::max<std::size_t>(static_cast<std::size_t>(n_chunks), 1), sizeof(Place))));
  if (!places_) throw std::bad_alloc();
}

// Datasets without pages of their own in the file: small, or never written.
void StoredArray::read_whole() {
  constexpr std::uint64_t kMaxOwnedBytes = std::uint64_t{1} << 30;
  if (stored_.n_bytes() > kMaxOwnedBytes)
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "a dataset this long was never written: '{}': {}", name_, length_);
  owned_ = stored_.read_all(kMaxOwnedBytes);
  contiguous_ = owned_.data();
}

// The parser has looked at the size of the source; this is the map of the same file.
std::span<const std::byte> StoredArray::file_bytes(std::uint64_t offset, std::uint64_t size) const {
  if (offset > bytes_.size() || size > bytes_.size() - offset)
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "the file changed while it was opened: '{}': offset {}, {} bytes, file has {}",
                name_, offset, size, bytes_.size());
  return bytes_.subspan(offset, size);
}

std::uint64_t StoredArray::offset_of(std::int64_t chunk) const {
  return std::atomic_ref(places_[static_cast<std::size_t>(chunk)].offset)
      .load(std::memory_order_acquire);
}

std::uint64_t StoredArray::size_and_mask_of(std::int64_t chunk) const {
  return std::atomic_ref(places_[static_cast<std::size_t>(chunk)].size_and_mask)
      .load(std::memory_order_relaxed);
}

void StoredArray::locate_chunks(std::span<const std::int64_t> chunks) const {
  std::vector<std::uint64_t> numbers;
  for (const std::int64_t chunk : chunks)
    if (offset_of(chunk) == 0) numbers.push_back(static_cast<std::uint64_t>(chunk));
  if (numbers.empty()) return;
  std::vector<hdf5::ChunkPlace> places(numbers.size());
  stored_.chunk_index()->locate(numbers, places);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    set_place(static_cast<std::int64_t>(numbers[i]), places[i]);
}

// Threads that locate one chunk at once write the same.
void StoredArray::set_place(std::int64_t chunk, const hdf5::ChunkPlace& found) const {
  Place& place = places_[static_cast<std::size_t>(chunk)];
  if (found.is_written) {
    file_bytes(found.offset, found.n_bytes);
    if (found.offset == 0 || found.n_bytes == 0 ||
        found.n_bytes > std::numeric_limits<std::uint32_t>::max())
      throw_error(ErrorKind::kCorruptData, file_.path(),
                  "impossible chunk: '{}', chunk {}: offset {}, {} bytes", name_, chunk,
                  found.offset, found.n_bytes);
    // Asked before there is memory for it.
    if (is_compressed())
      stored_.filters().check_expansion(
          found.n_bytes, static_cast<std::uint64_t>(chunk_bytes()),
          {.path = file_.path(), .offset = static_cast<std::int64_t>(found.offset)});
    std::atomic_ref(place.size_and_mask)
        .store(found.n_bytes | (std::uint64_t{found.skipped} << 32), std::memory_order_relaxed);
  }
  std::atomic_ref(place.offset)
      .store(found.is_written ? found.offset : kNeverWritten, std::memory_order_release);
}

const std::byte* StoredArray::fill_bytes() const {
  const auto make = [&] {
    std::vector<std::byte> chunk(static_cast<std::size_t>(chunk_bytes()), std::byte{0});
    const hdf5::Bytes element = stored_.dataset().fill_value();
    for (std::size_t at = 0; element.size() > 0 && at < chunk.size(); at += element.size())
      std::memcpy(chunk.data() + at, element.view().data(), element.size());
    return chunk;
  };
  return fill_chunk_.get(make).data();
}

void StoredArray::append_pieces(std::int64_t begin, std::int64_t end,
                                std::vector<RowPiece>& pieces) const {
  if (contiguous_ != nullptr) {
    if (begin < end) pieces.push_back({contiguous_ + begin * element_bytes(), end - begin});
    return;
  }
  while (begin < end) {
    const std::int64_t chunk = begin / chunk_elements_;
    const std::int64_t within = begin - chunk * chunk_elements_;
    const std::int64_t length = std::min(end - begin, chunk_elements_ - within);
    const std::uint64_t offset = offset_of(chunk);
    const std::byte* start = offset == kNeverWritten ? fill_bytes() : bytes_.data() + offset;
    pieces.push_back({start + within * element_bytes(), length});
    begin += length;
  }
}

io::ByteRange StoredArray::stored_range(std::int64_t chunk) const {
  const std::uint64_t offset = offset_of(chunk);
  if (offset == kNeverWritten) return {};
  return {static_cast<std::int64_t>(offset),
          static_cast<std::int64_t>(size_and_mask_of(chunk) & 0xffffffffu)};
}

void StoredArray::inflate(std::int64_t chunk, std::span<std::byte> out) const {
  const io::ByteRange range = stored_range(chunk);
  if (range.length == 0) {
    std::memcpy(out.data(), fill_bytes(), out.size());
    return;
  }
  stored_.filters().undo(bytes_.subspan(static_cast<std::size_t>(range.offset),
                                        static_cast<std::size_t>(range.length)),
                         static_cast<std::uint32_t>(size_and_mask_of(chunk) >> 32), out,
                         {.path = file_.path(), .offset = range.offset});
}

std::vector<std::int64_t> StoredArray::read_integers() const {
  if (is_float(dtype()) || dtype() == DType::kBool)
    throw_error(ErrorKind::kCorruptData, file_.path(), "must hold integers: '{}' holds {}", name_,
                dtype_name(dtype()));
  std::vector<std::int64_t> integers;
  integers.reserve(static_cast<std::size_t>(length_));
  std::vector<std::byte> native;
  const auto append = [&](const RowPiece& piece) {
    const std::span stored(piece.data, static_cast<std::size_t>(piece.length * element_bytes()));
    native.resize(stored.size());
    number_.to_native(stored, native.data());
    dispatch_dtype(dtype(), [&](auto zero) {
      using T = decltype(zero);
      for (std::int64_t i = 0; i < piece.length; ++i) {
        T value;
        std::memcpy(&value, native.data() + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
        integers.push_back(static_cast<std::int64_t>(value));
      }
    });
  };
  std::vector<std::int64_t> chunks(static_cast<std::size_t>(n_chunks_));
  std::iota(chunks.begin(), chunks.end(), std::int64_t{0});
  locate_chunks(chunks);
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
