// ChunkedArray: which chunks hold which elements.
#include "cellfeed/chunked/chunked_array.h"

#include <cstring>
#include <memory>
#include <utility>

namespace cellfeed::chunked {
namespace {

std::int64_t count_of(std::int64_t extent, std::int64_t chunk) {
  return extent / chunk + (extent % chunk != 0 ? 1 : 0);
}

}  // namespace

ChunkedArray::ChunkedArray(ArrayDescription description) : description_(std::move(description)) {
  for (const std::int64_t extent : chunk_shape()) chunk_elements_ *= extent;
  // A dimension of no elements leaves the others any length.
  if (std::find(shape().begin(), shape().end(), 0) != shape().end()) {
    length_ = n_chunks_ = 0;
    return;
  }
  for (std::size_t d = 0; d < shape().size(); ++d) {
    length_ *= shape()[d];
    n_chunks_ *= count_of(shape()[d], chunk_shape()[d]);
  }
}

ChunkedArray::Line ChunkedArray::find_line(std::int64_t element) const {
  const std::size_t last = shape().size() - 1;
  std::int64_t rest = element / shape()[last];
  Line line{.begin = rest * shape()[last]};
  std::int64_t chunks = count_of(shape()[last], chunk_shape()[last]);
  std::int64_t elements = chunk_shape()[last];
  for (std::size_t d = last; d-- > 0;) {
    const std::int64_t at = rest % shape()[d];
    rest /= shape()[d];
    line.chunk += at / chunk_shape()[d] * chunks;
    line.first += at % chunk_shape()[d] * elements;
    chunks *= count_of(shape()[d], chunk_shape()[d]);
    elements *= chunk_shape()[d];
  }
  return line;
}

ChunkedArray::PartOfRange ChunkedArray::part_in(const EntryRange& range, std::int64_t chunk) const {
  const Line line = line_of(range.begin);
  const std::int64_t step = chunk_shape().back();
  const std::int64_t chunk_begin = line.begin + (chunk - line.chunk) * step;
  const std::int64_t begin = std::max(range.begin, chunk_begin);
  const std::int64_t end = std::min(range.end, chunk_begin + step);
  return {{chunk, line.first + begin - chunk_begin, end - begin}, begin - range.begin};
}

std::int64_t ChunkedArray::first_chunk(const EntryRange& range) const {
  const Line line = line_of(range.begin);
  return line.chunk + (range.begin - line.begin) / chunk_shape().back();
}

void ChunkedArray::append_pieces(const EntryRange& range, std::vector<RowPiece>& pieces) const {
  if (contiguous_ != nullptr) {
    if (range.begin < range.end)
      pieces.push_back({contiguous_ + range.begin * element_bytes(), range.end - range.begin});
    return;
  }
  for_each_part(range, [&](const ChunkPart& part) {
    const std::byte* data = mapped(part.chunk);
    pieces.push_back({data ? data + part.first * element_bytes() : fill_line(), part.length});
  });
}

void ChunkedArray::fill(std::int64_t n, std::byte* out) const {
  const auto n_bytes = static_cast<std::size_t>(n * element_bytes());
  const std::vector<std::byte>& element = description_.fill;
  if (element.empty()) {
    std::memset(out, 0, n_bytes);
    return;
  }
  for (std::size_t at = 0; at < n_bytes; at += element.size())
    std::memcpy(out + at, element.data(), element.size());
}

const std::byte* ChunkedArray::fill_line() const {
  const auto make = [&] {
    std::vector<std::byte> line(static_cast<std::size_t>(chunk_shape().back() * element_bytes()));
    fill(chunk_shape().back(), line.data());
    return line;
  };
  return fill_line_.get(make).data();
}

void ChunkedArray::inflate(std::int64_t chunk, std::span<std::byte> out,
                           std::span<const std::byte> stored) const {
  const io::ByteRange range = stored_range(chunk);
  if (range.length == 0) return fill(chunk_elements_, out.data());
  const auto n_bytes = static_cast<std::size_t>(range.length);
  if (!stored.empty()) return inflate_written(chunk, stored, out);
  const io::ByteSource* source = reads();
  if (source == nullptr) return inflate_written(chunk, {mapped(chunk), n_bytes}, out);
  const auto owned = std::make_unique_for_overwrite<std::byte[]>(n_bytes);
  source->read(range.offset, {owned.get(), n_bytes});
  inflate_written(chunk, {owned.get(), n_bytes}, out);
}

}  // namespace cellfeed::chunked
