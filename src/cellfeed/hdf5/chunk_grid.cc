// ChunkGrid: counts and coordinates, without overflow.
#include "cellfeed/hdf5/chunk_grid.h"

#include <algorithm>
#include <utility>

#include "cellfeed/base/checked_size.h"
#include "cellfeed/base/error.h"

namespace cellfeed::hdf5 {
namespace {

std::uint64_t count_of(std::uint64_t extent, std::uint64_t chunk) {
  return extent / chunk + (extent % chunk != 0 ? 1 : 0);
}

}  // namespace

ChunkGrid::ChunkGrid(std::vector<std::uint64_t> shape, std::vector<std::uint64_t> max_shape,
                     std::vector<std::uint64_t> chunk_shape, const std::string& path)
    : shape_(std::move(shape)),
      max_shape_(max_shape.empty() ? shape_ : std::move(max_shape)),
      chunk_shape_(std::move(chunk_shape)) {
  if (shape_.size() != chunk_shape_.size() || shape_.size() != max_shape_.size() || shape_.empty())
    throw_error(ErrorKind::kCorruptData, path,
                "a dataset and its chunks differ in dimensions: {}, chunks {}", shape_.size(),
                chunk_shape_.size());
  CheckedSize total = 1;
  for (std::size_t d = 0; d < shape_.size(); ++d) {
    if (chunk_shape_[d] == 0 || shape_[d] > max_shape_[d])
      throw_error(ErrorKind::kCorruptData, path,
                  "a dataset of impossible shape: dimension {}: {}, at most {}, chunks of {}", d,
                  shape_[d], max_shape_[d], chunk_shape_[d]);
    counts_.push_back(count_of(shape_[d], chunk_shape_[d]));
    total = total * CheckedSize(static_cast<std::int64_t>(counts_.back()));
  }
  // A dimension of no elements makes no chunks of any number along the others.
  const bool is_empty = std::find(counts_.begin(), counts_.end(), 0u) != counts_.end();
  if (!is_empty && !total.fits())
    throw_error(ErrorKind::kCorruptData, path, "a dataset of more than 2^63 chunks: dimensions {}",
                shape_.size());
  n_chunks_ = is_empty ? 0 : static_cast<std::uint64_t>(total.value());
}

void ChunkGrid::coordinates(std::uint64_t number, std::span<std::uint64_t> out) const {
  for (std::size_t d = rank(); d-- > 0;) {
    out[d] = number % counts_[d];
    number /= counts_[d];
  }
}

bool ChunkGrid::is_partial(std::span<const std::uint64_t> coordinates) const {
  for (std::size_t d = 0; d < rank(); ++d)
    if (shape_[d] / chunk_shape_[d] <= coordinates[d]) return true;
  return false;
}

std::vector<std::uint64_t> ChunkGrid::max_counts() const {
  std::vector<std::uint64_t> counts;
  for (std::size_t d = 0; d < rank(); ++d)
    counts.push_back(max_shape_[d] == kUnlimited ? kUnlimited
                                                 : count_of(max_shape_[d], chunk_shape_[d]));
  return counts;
}

}  // namespace cellfeed::hdf5
