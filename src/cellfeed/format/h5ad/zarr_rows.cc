#include "cellfeed/format/h5ad/zarr_rows.h"

#include <algorithm>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/format/column_source.h"
#include "cellfeed/zarr/texts.h"

namespace cellfeed::format::h5ad {
namespace {

namespace zr = cellfeed::zarr;

constexpr std::int64_t kPieceBytes = std::int64_t{8} << 20;

std::vector<std::uint64_t> one_dimension_at_least(const std::vector<std::int64_t>& extents) {
  if (extents.empty()) return {1};
  return {extents.begin(), extents.end()};
}

std::int64_t product(std::span<const std::uint64_t> extents) {
  std::uint64_t n = 1;
  for (const std::uint64_t extent : extents) n *= extent;
  return static_cast<std::int64_t>(n);
}

// Moves to the next place in row-major order; false behind the last one.
bool advance(std::vector<std::uint64_t>& at, std::span<const std::uint64_t> begin,
             std::span<const std::uint64_t> end) {
  for (std::size_t d = at.size(); d-- > 0;) {
    if (++at[d] < end[d]) return true;
    at[d] = begin[d];
  }
  return false;
}

std::size_t offset_of(std::span<const std::uint64_t> at, std::span<const std::uint64_t> shape) {
  std::size_t offset = 0;
  for (std::size_t d = 0; d < at.size(); ++d) offset = offset * shape[d] + at[d];
  return offset;
}

}  // namespace

ZarrRows::ZarrRows(const zr::Hierarchy& store, const std::string& name, zr::ArrayMetadata array)
    : source_(store.shared_store(), name, std::move(array)),
      name_(name),
      shape_(one_dimension_at_least(source_.array().shape)),
      chunk_shape_(one_dimension_at_least(source_.array().inner_shape())) {}

std::int64_t ZarrRows::row_elements() const { return product(std::span(shape_).subspan(1)); }

std::int64_t ZarrRows::piece_bytes() const {
  const auto width = std::max<std::int64_t>(array().type.bytes, sizeof(std::string));
  std::int64_t row = width;
  for (std::size_t d = 1; d < shape_.size(); ++d) {
    const std::uint64_t n_chunks = (shape_[d] + chunk_shape_[d] - 1) / chunk_shape_[d];
    row *= static_cast<std::int64_t>(n_chunks * chunk_shape_[d]);
  }
  return row * rows_per_piece();
}

std::int64_t ZarrRows::rows_per_piece() const {
  const auto step = static_cast<std::int64_t>(chunk_shape_[0]);
  const auto width = std::max<std::int64_t>(array().type.bytes, sizeof(std::string));
  const std::int64_t rows = kPieceBytes / std::max<std::int64_t>(1, row_elements() * width);
  return std::max<std::int64_t>(1, rows / step) * step;
}

std::vector<ZarrRows::Part> ZarrRows::parts_of(std::int64_t begin, std::int64_t n) const {
  const std::size_t rank = shape_.size();
  hdf5::Box box{std::vector<std::uint64_t>(rank, 0), shape_};
  box.begin[0] = static_cast<std::uint64_t>(begin);
  box.shape[0] = static_cast<std::uint64_t>(n);
  if (product(box.shape) == 0) return {};
  std::vector<std::uint64_t> first(rank), end(rank), counts(rank);
  for (std::size_t d = 0; d < rank; ++d) {
    first[d] = box.begin[d] / chunk_shape_[d];
    end[d] = (box.begin[d] + box.shape[d] - 1) / chunk_shape_[d] + 1;
    counts[d] = (shape_[d] + chunk_shape_[d] - 1) / chunk_shape_[d];
  }
  std::vector<Part> parts;
  std::vector<std::uint64_t> at = first;
  do {
    Part part{.chunk = static_cast<std::int64_t>(offset_of(at, counts)),
              .box = {std::vector<std::uint64_t>(rank), std::vector<std::uint64_t>(rank)},
              .from = std::vector<std::uint64_t>(rank)};
    for (std::size_t d = 0; d < rank; ++d) {
      const std::uint64_t chunk_begin = at[d] * chunk_shape_[d];
      const std::uint64_t to = std::min(chunk_begin + chunk_shape_[d], box.begin[d] + box.shape[d]);
      part.box.begin[d] = std::max(chunk_begin, box.begin[d]);
      part.box.shape[d] = to - part.box.begin[d];
      part.from[d] = part.box.begin[d] - chunk_begin;
      part.box.begin[d] -= box.begin[d];  // from here on in what is read
    }
    parts.push_back(std::move(part));
  } while (advance(at, first, end));
  return parts;
}

void ZarrRows::count(const Part& part, const zr::ChunkPlace& place) {
  stored_bytes_ += static_cast<std::uint64_t>(place.range.length);
  if (place.state == zr::ChunkState::kWritten) return;
  missing_elements_ += static_cast<std::uint64_t>(product(part.box.shape));
  const auto width = std::max<std::uint64_t>(array().type.bytes, sizeof(std::uint32_t));
  if (missing_elements_ > kAlwaysReadBytes / width + kMostExpansion * stored_bytes_)
    throw_error(ErrorKind::kCorruptData, source_.path(),
                "an array larger than a store of this size can hold: '{}'", name_);
  if (array().type.kind == zr::TypeKind::kRecord)
    throw_error(ErrorKind::kUnsupported, source_.path(),
                "records that were never written: '{}' has no '{}'", name_,
                source_.key_of_chunk(part.chunk));
}

cellfeed::zarr::ChunkReads ZarrRows::fetch(std::vector<Part>& parts) {
  zr::ChunkReads reads(source_);
  for (Part& part : parts) {
    const zr::ChunkPlace place = source_.locate(part.chunk);
    count(part, place);
    if (place.state == zr::ChunkState::kWritten) part.read = reads.add(place);
  }
  reads.read();
  return reads;
}

std::vector<std::byte> ZarrRows::decode(const Part& part, const zr::ChunkReads& reads) const {
  const std::span<const std::byte> stored = reads.bytes(*part.read);
  return source_.decode(part.chunk, stored, most_expanded_bytes(stored.size()));
}

std::vector<std::byte> ZarrRows::read(std::int64_t begin, std::int64_t n) {
  const auto width = static_cast<std::size_t>(array().type.bytes);
  std::vector<std::byte> out(static_cast<std::size_t>(n * row_elements()) * width);
  std::vector<std::uint64_t> shape = shape_;
  shape[0] = static_cast<std::uint64_t>(n);
  auto parts = parts_of(begin, n);
  const zr::ChunkReads reads = fetch(parts);
  for (const Part& part : parts) {
    const hdf5::BoxEnd<std::byte> to{out.data(), shape, part.box.begin};
    if (part.read) {
      const auto decoded = decode(part, reads);
      hdf5::copy_box({decoded.data(), chunk_shape_, part.from}, to, part.box.shape, width);
    } else if (!array().fill.empty()) {
      hdf5::fill_box(array().fill, to, part.box.shape);
    }
  }
  return out;
}

std::vector<std::string> ZarrRows::read_texts(std::int64_t begin, std::int64_t n) {
  const auto& type = array().type;
  const std::string missing(reinterpret_cast<const char*>(array().fill.data()),
                            array().fill.size());
  std::vector<std::string> out(static_cast<std::size_t>(n * row_elements()), missing);
  std::vector<std::uint64_t> shape = shape_;
  shape[0] = static_cast<std::uint64_t>(n);
  auto parts = parts_of(begin, n);
  const zr::ChunkReads reads = fetch(parts);
  const std::vector<std::uint64_t> zeros(shape_.size(), 0);
  for (const Part& part : parts) {
    if (!part.read) continue;
    const auto decoded = decode(part, reads);
    std::vector<std::uint64_t> at = zeros, to = zeros;  // in the chunk, in what is read
    const auto take = [&](std::string_view text) {
      bool is_inside = true;
      for (std::size_t d = 0; d < at.size(); ++d) {
        is_inside = is_inside && at[d] >= part.from[d] && at[d] < part.from[d] + part.box.shape[d];
        to[d] = part.box.begin[d] + at[d] - part.from[d];
      }
      if (is_inside) out[offset_of(to, shape)] = text;
      advance(at, zeros, chunk_shape_);
    };
    if (!zr::visit_texts(type, decoded, 0, product(chunk_shape_), take))
      throw_error(ErrorKind::kCorruptData, source_.path(),
                  "damaged chunk: '{}' holds no texts, or fewer than it should",
                  source_.key_of_chunk(part.chunk));
  }
  return out;
}

}  // namespace cellfeed::format::h5ad
