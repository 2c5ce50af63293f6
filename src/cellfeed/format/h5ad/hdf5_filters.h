// The filters of HDF5 that this version undoes, by number.
#pragma once

#include <hdf5.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/io/codecs.h"

namespace cellfeed::format::h5ad {

inline constexpr int kDeflateFilter = 1;
inline constexpr int kShuffleFilter = 2;
inline constexpr int kFletcher32Filter = 3;
inline constexpr int kLzfFilter = 32000;
inline constexpr int kLz4Filter = 32004;
inline constexpr int kZstdFilter = 32015;

// "gzip", "lzf", ...; empty for filters that are not undone here.
std::string filter_name(int filter);

// The filters of one dataset, in the order in which they were applied when writing.
class FilterPipeline {
 public:
  FilterPipeline() = default;
  // Throws kUnsupported naming the filter. name: of the dataset, for messages.
  FilterPipeline(std::vector<int> filters, std::size_t element_bytes, const std::string& path,
                 const std::string& name);
  bool empty() const { return filters_.empty(); }
  // "none", "gzip", "shuffle+gzip", ...
  std::string name() const;
  // Of the size of a chunk that undo works with at once, its result included.
  std::int64_t n_buffers() const;
  // Undoes what mask does not say was skipped (bit i: filter i). Throws kCorruptData. out is the
  // whole chunk.
  void undo(std::span<const std::byte> stored, std::uint32_t skipped, std::span<std::byte> out,
            const io::ChunkOrigin& origin) const;

 private:
  std::vector<int> filters_;
  std::size_t element_bytes_ = 1;
};

[[noreturn]] void throw_unreadable_filter(int filter, const std::string& path,
                                          const std::string& name);
// Those of a dataset, from its creation properties. REQUIRES: a Hdf5Session.
std::vector<int> filters_of(hid_t properties);

// Teaches HDF5 itself to read lzf, for obs and var columns, which it reads for us.
void register_read_filters();

}  // namespace cellfeed::format::h5ad
