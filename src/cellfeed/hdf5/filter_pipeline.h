// FilterPipeline: undoes the filters of a dataset's chunks. Thread-safe: immutable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cellfeed/hdf5/filter_pipeline_message.h"
#include "cellfeed/io/codecs.h"

namespace cellfeed::hdf5 {

// Identification numbers of filters, HDF5's own and registered ones.
inline constexpr std::uint16_t kDeflateFilter = 1;
inline constexpr std::uint16_t kShuffleFilter = 2;
inline constexpr std::uint16_t kFletcher32Filter = 3;
inline constexpr std::uint16_t kSzipFilter = 4;
inline constexpr std::uint16_t kNbitFilter = 5;
inline constexpr std::uint16_t kScaleOffsetFilter = 6;
inline constexpr std::uint16_t kLzfFilter = 32000;
inline constexpr std::uint16_t kBloscFilter = 32001;
inline constexpr std::uint16_t kLz4Filter = 32004;
inline constexpr std::uint16_t kBitshuffleFilter = 32008;
inline constexpr std::uint16_t kZstdFilter = 32015;
inline constexpr std::uint16_t kBlosc2Filter = 32026;

// "gzip", "lzf", ...; empty for unknown numbers.
std::string_view filter_name(std::uint16_t id);
// Whether it is undone here.
bool is_readable_filter(std::uint16_t id);
// kUnsupported, naming the filter and what to do.
[[noreturn]] void throw_unreadable_filter(const FilterDescription& filter, const std::string& path,
                                          const std::string& dataset);

class FilterPipeline {
 public:
  FilterPipeline() = default;
  // filters: in the order in which they were applied when writing. Throws kUnsupported naming the
  // filter and the dataset.
  FilterPipeline(std::vector<FilterDescription> filters, std::size_t element_bytes,
                 const std::string& path, const std::string& dataset);

  bool empty() const { return filters_.empty(); }
  // "none", "gzip", "shuffle+gzip", ...
  std::string name() const;
  // Of the size of a chunk that undo works with at once, its result included.
  std::int64_t n_buffers() const;
  // Throws kCorruptData where no stored_bytes can become chunk_bytes: to ask before there is memory
  // for a chunk.
  void check_expansion(std::uint64_t stored_bytes, std::uint64_t chunk_bytes,
                       const io::ChunkOrigin& origin) const;
  // Undoes what bit i of skipped does not say that filter i left out. Throws kCorruptData unless
  // the result is exactly as long as out, which is the whole chunk.
  void undo(std::span<const std::byte> stored, std::uint32_t skipped, std::span<std::byte> out,
            const io::ChunkOrigin& origin) const;

 private:
  std::size_t shuffled_bytes(const FilterDescription& filter) const;
  void decode(const FilterDescription& filter, std::span<const std::byte> in,
              std::span<std::byte> out, const io::ChunkOrigin& origin) const;

  std::vector<FilterDescription> filters_;
  std::size_t element_bytes_ = 1;
};

}  // namespace cellfeed::hdf5
