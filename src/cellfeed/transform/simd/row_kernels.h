// Kernels that move the entries of one row; the best instruction set of the machine is chosen at
// run time (Highway). They move bits, so one serves float and int32, another double and int64.
// Thread-safe: each call touches its row only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace cellfeed::transform {

// Which columns are kept, and where they go.
struct KeptColumns {
  const std::int32_t* places = nullptr;  // of each column; -1: it is dropped
  // The same by a bit for each column, and kMarksPadding words of any value behind them; null where
  // nobody made them. Sixteen columns in a row that are near to one another are looked up at once.
  const std::uint32_t* marks = nullptr;
};
inline constexpr std::size_t kMarksPadding = 32;

// Copies the entries whose column is kept, in order, with the column's place as index. Returns how
// many there are; what is behind them up to n is overwritten, nothing past n is touched. REQUIRES:
// indices rise, and all are columns; values hold n elements of value_bytes (4 or 8); what is copied
// to is what is copied from, or apart from it.
std::size_t keep_mapped(const std::int32_t* indices, const void* values, std::size_t value_bytes,
                        std::size_t n, const KeptColumns& columns, std::int32_t* to_indices,
                        void* to_values);

// Of the entries of a row, by column.
enum class EntryOrder { kIncreasing, kAny };

// Through the caches for rows that are read again soon; past them (non-temporal) for rows of blocks
// that are larger than the caches, where reading a line before writing it would cost a third of the
// memory's bandwidth.
enum class RowStores { kCached, kStreaming };

// Streaming for blocks larger than the last cache of most machines (32 MiB), of rows that are wide
// enough (32 KiB) to make up for building them in the nearest cache first; measured in
// benchmarks/micro/transform_bench.cc.
RowStores choose_row_stores(std::int64_t n_rows, std::int64_t row_bytes);

// out[0, n_cols) = 0, then out[indices[k]] = values[k]. Streaming stores are visible to other
// threads on return, as others are. REQUIRES: indices in the order named, none twice, and in [0,
// n_cols); out aligned to value_bytes (4 or 8), and apart from values.
void scatter_row(std::span<const std::int32_t> indices, const void* values, std::size_t value_bytes,
                 void* out, std::size_t n_cols, RowStores stores,
                 EntryOrder order = EntryOrder::kIncreasing);

// Copies bytes past the caches: rows that were made in the nearest cache, to a batch that nobody
// reads soon. Other threads see them after publish_copies(). REQUIRES: apart; n_bytes and `to` are
// multiples of 4.
void copy_past_caches(const void* from, std::size_t n_bytes, void* to);
void publish_copies();

}  // namespace cellfeed::transform
