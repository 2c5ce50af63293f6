// DatasetBytes: boxes out of compact, contiguous and chunked elements.
#include "cellfeed/hdf5/dataset_bytes.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "cellfeed/base/checked_size.h"
#include "cellfeed/base/error.h"
#include "cellfeed/io/range_reads.h"

namespace cellfeed::hdf5 {
namespace {

// Chunks that are located and read in one go, and stored bytes of them held at once.
constexpr std::size_t kChunksATrip = 1024;
constexpr std::uint64_t kStoredBytesHeld = std::uint64_t{64} << 20;
// Between chunks that are read together; what is read besides is memory too.
constexpr std::int64_t kLongestGap = 16 << 10;

std::uint64_t product(std::span<const std::uint64_t> shape) {
  std::uint64_t n = 1;
  for (const std::uint64_t extent : shape) n *= extent;
  return n;
}

// The chunks that hold any of a box, numbers ascending.
class ChunksOfBox {
 public:
  ChunksOfBox(const ChunkGrid& grid, const Box& box) : grid_(grid) {
    for (std::size_t d = 0; d < grid.rank(); ++d) {
      const std::uint64_t chunk = grid.chunk_shape()[d];
      first_.push_back(box.begin[d] / chunk);
      last_.push_back((box.begin[d] + box.shape[d] - 1) / chunk);
    }
    at_ = first_;
  }
  // At most n of the next ones; none at the end.
  std::vector<std::uint64_t> next(std::size_t n) {
    std::vector<std::uint64_t> numbers;
    while (!is_done_ && numbers.size() < n) {
      std::uint64_t number = 0;
      for (std::size_t d = 0; d < at_.size(); ++d) number = number * grid_.counts()[d] + at_[d];
      numbers.push_back(number);
      advance();
    }
    return numbers;
  }

 private:
  void advance() {
    for (std::size_t d = at_.size(); d-- > 0;) {
      if (++at_[d] <= last_[d]) return;
      at_[d] = first_[d];
    }
    is_done_ = true;
  }

  const ChunkGrid& grid_;
  std::vector<std::uint64_t> first_, last_, at_;
  bool is_done_ = false;
};

}  // namespace

DatasetBytes::DatasetBytes(const Dataset& dataset, Unwritten unwritten)
    : dataset_(dataset),
      unwritten_(unwritten),
      file_(dataset_.bytes()),
      n_bytes_(dataset_.space().n_elements * dataset_.datatype().size) {
  const auto* chunked = std::get_if<ChunkedLayout>(&dataset_.layout());
  if (chunked == nullptr) return;
  filters_ = FilterPipeline(dataset_.filters(), static_cast<std::size_t>(element_bytes()),
                            file_.path(), dataset_.path());
  index_ = make_chunk_index(
      file_, *chunked,
      ChunkGrid(shape(), dataset_.space().max_shape, chunked->chunk_shape, file_.path()),
      !filters_.empty());
}

void DatasetBytes::check_inside(const Box& box, std::span<std::byte> out) const {
  bool is_inside = box.begin.size() == shape().size() && box.shape.size() == shape().size();
  for (std::size_t d = 0; is_inside && d < box.begin.size(); ++d)
    is_inside = box.begin[d] <= shape()[d] && box.shape[d] <= shape()[d] - box.begin[d];
  if (!is_inside || out.size() != product(box.shape) * element_bytes())
    throw_error(ErrorKind::kInternal, file_.path(), "a box outside of '{}', or of {} bytes",
                dataset_.path(), out.size());
}

void DatasetBytes::read(const Box& box, std::span<std::byte> out) const {
  check_inside(box, out);
  if (out.empty()) return;
  if (const auto* compact = std::get_if<CompactLayout>(&dataset_.layout()))
    return read_in_place(compact->elements.view(), box, out);
  if (!index_) return read_contiguous(box, out);
  ChunksOfBox chunks(index_->grid(), box);
  for (auto numbers = chunks.next(kChunksATrip); !numbers.empty();
       numbers = chunks.next(kChunksATrip))
    read_chunks(numbers, box, out);
}

std::vector<std::byte> DatasetBytes::read_all(std::uint64_t max_bytes) const {
  if (n_bytes_ == 0) return {};
  if (n_bytes_ > max_bytes)
    throw_error(ErrorKind::kUnsupported, file_.path(),
                "a dataset too large to be read whole: '{}': {} bytes, at most {}", dataset_.path(),
                n_bytes_, max_bytes);
  std::vector<std::byte> out(static_cast<std::size_t>(n_bytes_));
  read({std::vector<std::uint64_t>(shape().size(), 0), shape()}, out);
  return out;
}

void DatasetBytes::accept_unwritten() const {
  if (unwritten_ == Unwritten::kDamage)
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "a part of '{}' was never written: its writer did not finish, or the file is "
                "damaged; write it again or restore it",
                dataset_.path());
}

void DatasetBytes::fill(const BoxEnd<std::byte>& to, std::span<const std::uint64_t> shape) const {
  accept_unwritten();
  const Bytes element = dataset_.fill_value();
  const std::vector<std::byte> zeros(static_cast<std::size_t>(element_bytes()));
  fill_box(element.size() == 0 ? std::span(zeros) : element.view(), to, shape);
}

void DatasetBytes::read_in_place(std::span<const std::byte> elements, const Box& box,
                                 std::span<std::byte> out) const {
  if (elements.size() < n_bytes_)
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "a dataset has fewer bytes than its shape: '{}': {} bytes, shape {}",
                dataset_.path(), elements.size(), n_bytes_);
  const std::vector<std::uint64_t> origin(box.shape.size(), 0);
  copy_box({elements.data(), shape(), box.begin}, {out.data(), box.shape, origin}, box.shape,
           element_bytes());
}

// Rows of the box that stand one after another are read together.
void DatasetBytes::read_contiguous(const Box& box, std::span<std::byte> out) const {
  const auto& layout = std::get<ContiguousLayout>(dataset_.layout());
  const std::vector<std::uint64_t> origin(box.shape.size(), 0);
  if (layout.address == kUndefinedAddress) return fill({out.data(), box.shape, origin}, box.shape);
  if (layout.n_bytes.value_or(n_bytes_) < n_bytes_ || !file_.holds(layout.address, n_bytes_))
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "data lies outside the file (truncated?): '{}': address {}, {} bytes, the file has "
                "{}",
                dataset_.path(), layout.address, n_bytes_, file_.size());
  const std::int64_t offset = file_.source_offset(layout.address);
  if (const auto map = file_.source()->map(); !map.empty())
    return read_in_place(map.subspan(static_cast<std::size_t>(offset), n_bytes_), box, out);
  std::vector<io::ReadRequest> requests;
  for_each_piece(box, out, [&](std::uint64_t at, std::span<std::byte> piece) {
    requests.push_back({offset + static_cast<std::int64_t>(at), piece});
  });
  file_.source()->read_many(requests);
}

template <typename Visit>
void DatasetBytes::for_each_piece(const Box& box, std::span<std::byte> out,
                                  const Visit& visit) const {
  // Dimensions behind the last one that the box does not span are one piece.
  std::size_t split = box.shape.size();
  while (split > 0 && box.shape[split - 1] == shape()[split - 1]) --split;
  const std::size_t outer = split == 0 ? 0 : split - 1;
  const std::uint64_t piece_bytes = product(std::span(box.shape).subspan(outer)) * element_bytes();
  std::vector<std::uint64_t> at(box.begin.begin(), box.begin.end());
  for (std::size_t written = 0; written < out.size(); written += piece_bytes) {
    std::uint64_t element = 0;
    for (std::size_t d = 0; d < at.size(); ++d) element = element * shape()[d] + at[d];
    visit(element * element_bytes(), out.subspan(written, piece_bytes));
    for (std::size_t d = outer; d-- > 0;) {
      if (++at[d] < box.begin[d] + box.shape[d]) break;
      at[d] = box.begin[d];
    }
  }
}

void DatasetBytes::read_chunks(std::span<const std::uint64_t> numbers, const Box& box,
                               std::span<std::byte> out) const {
  std::vector<ChunkPlace> places(numbers.size());
  index_->locate(numbers, places);
  const auto map = file_.source()->map();
  for (std::size_t begin = 0, end = 0; begin < numbers.size(); begin = end) {
    std::uint64_t held = 0;
    for (end = begin; end < numbers.size() && (end == begin || held < kStoredBytesHeld); ++end)
      held += places[end].n_bytes;
    io::RangeReads reads(kLongestGap);
    if (map.empty()) {
      for (std::size_t i = begin; i < end; ++i)
        reads.add(*file_.source(), {static_cast<std::int64_t>(places[i].offset),
                                    static_cast<std::int64_t>(places[i].n_bytes)});
      reads.begin();
      reads.wait();
    }
    for (std::size_t i = begin; i < end; ++i)
      place_chunk(numbers[i], places[i],
                  map.empty() ? reads.bytes(i - begin)
                              : map.subspan(static_cast<std::size_t>(places[i].offset),
                                            static_cast<std::size_t>(places[i].n_bytes)),
                  box, out);
  }
}

void DatasetBytes::place_chunk(std::uint64_t number, const ChunkPlace& place,
                               std::span<const std::byte> stored, const Box& box,
                               std::span<std::byte> out) const {
  const ChunkGrid& grid = index_->grid();
  const auto chunk_shape = grid.chunk_shape();
  std::vector<std::uint64_t> in_chunk(grid.rank()), in_box(grid.rank()), part(grid.rank());
  grid.coordinates(number, in_chunk);
  for (std::size_t d = 0; d < grid.rank(); ++d) {
    const std::uint64_t chunk_begin = in_chunk[d] * chunk_shape[d];
    const std::uint64_t begin = std::max(chunk_begin, box.begin[d]);
    // The box ends inside the shape; a chunk may end past it.
    const std::uint64_t box_end = box.begin[d] + box.shape[d];
    part[d] = std::min(chunk_shape[d] - (begin - chunk_begin), box_end - begin);
    in_chunk[d] = begin - chunk_begin;
    in_box[d] = begin - box.begin[d];
  }
  const BoxEnd<std::byte> to{out.data(), box.shape, in_box};
  if (!place.is_written) return fill(to, part);
  const io::ChunkOrigin origin{.path = file_.path(),
                               .offset = static_cast<std::int64_t>(place.offset)};
  const std::uint64_t chunk_bytes = std::get<ChunkedLayout>(dataset_.layout()).chunk_bytes;
  if (stored.size() == chunk_bytes && (filters_.empty() || place.skipped == ~std::uint32_t{0}))
    return copy_box({stored.data(), chunk_shape, in_chunk}, to, part, element_bytes());
  filters_.check_expansion(stored.size(), chunk_bytes, origin);
  const auto chunk =
      std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(chunk_bytes));
  filters_.undo(stored, place.skipped, {chunk.get(), static_cast<std::size_t>(chunk_bytes)},
                origin);
  copy_box({chunk.get(), chunk_shape, in_chunk}, to, part, element_bytes());
}

}  // namespace cellfeed::hdf5
