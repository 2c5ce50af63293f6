// H5Array: layout and places of chunks from the parser, elements from the map.
#include "cellfeed/format/h5_array.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/matrix/buffer.h"

namespace cellfeed::format {
namespace {

// More than HDF5's own limit of 4 GiB a chunk would not be a chunk.
constexpr std::uint64_t kMaxChunkBytes = std::uint64_t{1} << 32;
// Element numbers, and bytes of what is stored by element, fit into 63 bits with room to spare.
constexpr std::uint64_t kMaxExtent = std::uint64_t{1} << 59;
constexpr std::uint64_t kMaxArrayBytes = std::uint64_t{1} << 62;
constexpr std::uint64_t kMaxOwnedBytes = std::uint64_t{1} << 30;
constexpr std::uint64_t kMaxUnwrittenBytes = std::uint64_t{1} << 30;
constexpr std::uint64_t kMaxUnwrittenChunks = std::uint64_t{1} << 24;

const hdf5::Dataset& checked_rank(const H5File& file, const std::string& name,
                                  const hdf5::Dataset& dataset, std::size_t rank) {
  if (dataset.shape().size() != rank)
    throw_error(ErrorKind::kCorruptData, file.path(), "must have {}: '{}' has {}",
                rank == 1 ? "one dimension" : fmt::format("{} dimensions", rank), name,
                dataset.shape().size());
  return dataset;
}

hdf5::Dataset find_dataset(const H5File& file, const std::string& name, std::size_t rank) {
  const auto object = file.hdf5().find(name);
  if (!object || object->kind() != hdf5::ObjectKind::kDataset)
    throw_error(ErrorKind::kCorruptData, file.path(), "no such dataset: '{}'", name);
  return checked_rank(file, name, object->dataset(), rank);
}

[[noreturn]] void throw_impossible_shape(const H5File& file, const std::string& name,
                                         std::span<const std::uint64_t> shape) {
  throw_error(ErrorKind::kCorruptData, file.path(), "impossible shape: '{}': {}", name,
              fmt::join(shape, " x "));
}

// Of what is read in chunks and stored in one piece. More costs bytes where rows are few, less
// costs reads.
constexpr std::int64_t kReadPieceBytes = 32 << 10;

// Of a dataset in chunks, whose table of places must be worth its memory: pages of it that are not
// looked at take none.
std::vector<std::int64_t> read_chunk_shape(const H5File& file, const std::string& name,
                                           std::size_t file_bytes,
                                           const hdf5::ChunkedLayout& layout,
                                           const hdf5::ChunkGrid& grid) {
  if (layout.chunk_bytes > kMaxChunkBytes)
    throw_error(ErrorKind::kCorruptData, file.path(), "impossible chunk size: '{}': {} bytes", name,
                layout.chunk_bytes);
  if (grid.n_chunks() > std::max(kMaxUnwrittenChunks, std::uint64_t{file_bytes}))
    throw_error(ErrorKind::kCorruptData, file.path(),
                "more chunks than the file has bytes: '{}': {}", name, grid.n_chunks());
  return {layout.chunk_shape.begin(), layout.chunk_shape.end()};
}

// The bytes that the dataset lies in: the file's own, unless a link led to another.
std::span<const std::byte> bytes_holding(const H5File& file, std::span<const std::byte> own,
                                         const hdf5::Dataset& dataset) {
  const auto& source = dataset.bytes().source();
  return source == file.hdf5().bytes().source() ? own : source->map();
}

// Null where the dataset's bytes are in memory.
const io::ByteSource* reads_of(const hdf5::Dataset& dataset) {
  const auto& source = dataset.bytes().source();
  return source->map().empty() && source->size() > 0 ? source.get() : nullptr;
}

bool is_in_one_piece(const hdf5::DatasetBytes& stored) {
  const auto* contiguous = std::get_if<hdf5::ContiguousLayout>(&stored.dataset().layout());
  return contiguous != nullptr && contiguous->address != hdf5::kUndefinedAddress &&
         stored.n_bytes() > 0;
}

std::vector<std::int64_t> piece_shape(std::vector<std::int64_t> shape,
                                      const hdf5::DatasetBytes& stored) {
  const std::int64_t row_bytes = static_cast<std::int64_t>(stored.n_bytes()) / shape[0];
  shape[0] = std::clamp<std::int64_t>(kReadPieceBytes / row_bytes, 1, shape[0]);
  return shape;
}

// Never written and in one piece: lines of the fill value are made of it, one at most.
void check_unwritten(const H5File& file, const std::string& name,
                     const hdf5::DatasetBytes& stored) {
  const auto* contiguous = std::get_if<hdf5::ContiguousLayout>(&stored.dataset().layout());
  if (contiguous == nullptr || contiguous->address != hdf5::kUndefinedAddress) return;
  if (stored.shape().back() * stored.element_bytes() > kMaxUnwrittenBytes)
    throw_error(ErrorKind::kCorruptData, file.path(),
                "a dataset this long was never written: '{}': {}", name, stored.shape().back());
}

// number: of which the elements are records; null where they are numbers themselves.
chunked::ArrayDescription describe_array(const H5File& file, const std::string& name,
                                         std::int32_t key, const hdf5::DatasetBytes& stored,
                                         const hdf5::Datatype* number) {
  const bool is_read = reads_of(stored.dataset()) != nullptr;
  chunked::ArrayDescription array{
      .path = file.path(),
      .name = name,
      .key = key,
      .element_bytes = static_cast<std::int64_t>(stored.element_bytes()),
      .is_mapped = stored.filters().empty() &&
                   !(is_read && (stored.chunk_index() != nullptr || is_in_one_piece(stored)))};
  for (const std::uint64_t extent : stored.shape()) {
    if (extent > kMaxExtent) throw_impossible_shape(file, name, stored.shape());
    array.shape.push_back(static_cast<std::int64_t>(extent));
  }
  if (stored.n_bytes() > kMaxArrayBytes) throw_impossible_shape(file, name, stored.shape());
  const auto* chunked = std::get_if<hdf5::ChunkedLayout>(&stored.dataset().layout());
  if (chunked != nullptr) {
    array.chunk_shape = read_chunk_shape(file, name, stored.dataset().bytes().size(), *chunked,
                                         stored.chunk_index()->grid());
  } else if (is_read && is_in_one_piece(stored)) {
    array.chunk_shape = piece_shape(array.shape, stored);
  } else {
    check_unwritten(file, name, stored);
    array.chunk_shape = array.shape;
    if (stored.n_bytes() == 0) array.chunk_shape.assign(array.shape.size(), 1);
  }
  if (number != nullptr) {
    const std::int64_t n_numbers = array.element_bytes / static_cast<std::int64_t>(number->size);
    array.shape.push_back(n_numbers);
    array.chunk_shape.push_back(n_numbers);
    array.element_bytes = static_cast<std::int64_t>(number->size);
    return array;
  }
  const hdf5::Bytes element = stored.dataset().fill_value();
  array.fill.assign(element.view().begin(), element.view().end());
  return array;
}

}  // namespace

H5Array::H5Array(const H5File& file, const std::string& name, std::size_t rank, std::int32_t key,
                 std::span<const std::byte> bytes, hdf5::Unwritten unwritten)
    : H5Array(file, name, key, bytes, hdf5::DatasetBytes(find_dataset(file, name, rank), unwritten),
              nullptr) {}

H5Array::H5Array(const H5File& file, const std::string& name, const hdf5::Dataset& records,
                 const hdf5::Datatype& number, std::int32_t key, std::span<const std::byte> bytes)
    : H5Array(file, name, key, bytes,
              hdf5::DatasetBytes(checked_rank(file, name, records, 1), hdf5::Unwritten::kDamage),
              &number) {}

H5Array::H5Array(const H5File& file, const std::string& name, std::int32_t key,
                 std::span<const std::byte> bytes, hdf5::DatasetBytes stored,
                 const hdf5::Datatype* number)
    : StoredArray(describe_array(file, name, key, stored, number)),
      file_(file),
      bytes_(bytes_holding(file, bytes, stored.dataset())),
      reads_(reads_of(stored.dataset())),
      stored_(std::move(stored)),
      number_(stored_number(number != nullptr ? *number : stored_.dataset().datatype(), file.path(),
                            name)) {
  if (stored_.chunk_index() != nullptr)
    places_.emplace(n_chunks());
  else
    read_in_one_piece();
}

std::int64_t H5Array::inflating_bytes() const {
  if (is_mapped()) return 0;
  return static_cast<std::int64_t>(matrix::block_bytes(static_cast<std::size_t>(chunk_bytes()))) *
         std::max<std::int64_t>(stored_.filters().n_buffers(), 1);
}

void H5Array::read_in_one_piece() {
  const hdf5::Layout& layout = stored_.dataset().layout();
  const auto* contiguous = std::get_if<hdf5::ContiguousLayout>(&layout);
  if (contiguous == nullptr) {
    owned_ = stored_.read_all(kMaxOwnedBytes);
    set_contiguous(owned_.data());
    return;
  }
  if (contiguous->address == hdf5::kUndefinedAddress) {
    places_.emplace(n_chunks());
    if (n_chunks() == 0) return;
    stored_.accept_unwritten();
    set_place(0, {.is_written = false});
    return;
  }
  const hdf5::FileBytes& file = stored_.dataset().bytes();
  if (!file.holds(contiguous->address, stored_.n_bytes()))
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "data lies outside the file (truncated?): '{}': address {}, {} bytes, file has {}",
                name(), contiguous->address, stored_.n_bytes(), n_file_bytes());
  piece_offset_ = file.source_offset(contiguous->address);
  check_inside(static_cast<std::uint64_t>(piece_offset_), stored_.n_bytes());
  if (is_mapped()) set_contiguous(bytes_.data() + piece_offset_);
}

// The parser has looked at the size of the source; this is the map of the same file.
void H5Array::check_inside(std::uint64_t offset, std::uint64_t size) const {
  const std::uint64_t all = n_file_bytes();
  if (offset > all || size > all - offset)
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "the file changed while it was opened: '{}': offset {}, {} bytes, file has {}",
                name(), offset, size, all);
}

std::uint64_t H5Array::n_file_bytes() const {
  return reads_ != nullptr ? static_cast<std::uint64_t>(reads_->size()) : bytes_.size();
}

void H5Array::locate_chunks(std::span<const std::int64_t> chunks) const {
  if (!places_) return;
  std::vector<std::uint64_t> numbers;
  for (const std::int64_t chunk : chunks)
    if (!places_->has(chunk)) numbers.push_back(static_cast<std::uint64_t>(chunk));
  if (numbers.empty()) return;
  std::vector<hdf5::ChunkPlace> places(numbers.size());
  stored_.chunk_index()->locate(numbers, places);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    set_place(static_cast<std::int64_t>(numbers[i]), places[i]);
}

void H5Array::set_place(std::int64_t chunk, const hdf5::ChunkPlace& found) const {
  if (!found.is_written) {
    stored_.accept_unwritten();
    places_->set(chunk, {});
    return;
  }
  check_inside(found.offset, found.n_bytes);
  if (found.offset == 0 || found.n_bytes == 0 ||
      found.n_bytes > std::numeric_limits<std::uint32_t>::max())
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "impossible chunk: '{}', chunk {}: offset {}, {} bytes", name(), chunk,
                found.offset, found.n_bytes);
  // Asked before there is memory for it.
  if (!stored_.filters().empty())
    stored_.filters().check_expansion(
        found.n_bytes, static_cast<std::uint64_t>(chunk_bytes()),
        {.path = file_.path(), .offset = static_cast<std::int64_t>(found.offset)});
  places_->set(chunk, {.is_written = true,
                       .offset = static_cast<std::int64_t>(found.offset),
                       .length = found.n_bytes | (std::uint64_t{found.skipped} << 32)});
}

io::ByteRange H5Array::stored_range(std::int64_t chunk) const {
  if (!places_) {
    const std::int64_t begin = chunk * chunk_bytes();
    const auto all = static_cast<std::int64_t>(stored_.n_bytes());
    return {piece_offset_ + begin, std::min(chunk_bytes(), all - begin)};
  }
  const auto place = places_->get(chunk);
  return {place.offset, static_cast<std::int64_t>(place.length & 0xffffffffu)};
}

const std::byte* H5Array::mapped(std::int64_t chunk) const {
  const auto place = places_->get(chunk);
  return place.is_written ? bytes_.data() + place.offset : nullptr;
}

void H5Array::inflate_written(std::int64_t chunk, std::span<const std::byte> stored,
                              std::span<std::byte> out) const {
  if (stored_.filters().empty()) {
    const std::size_t n = std::min(stored.size(), out.size());
    std::memcpy(out.data(), stored.data(), n);
    std::memset(out.data() + n, 0, out.size() - n);
    return;
  }
  try {
    stored_.filters().undo(
        stored, places_ ? static_cast<std::uint32_t>(places_->get(chunk).length >> 32) : 0, out,
        {.path = file_.path(), .offset = stored_range(chunk).offset});
  } catch (const Error&) {
    file_.require_unchanged();  // zeros of lost pages are no damage
    throw;
  }
}

}  // namespace cellfeed::format
