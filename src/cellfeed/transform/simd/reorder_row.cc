#include "cellfeed/transform/simd/reorder_row.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cellfeed/transform/simd/reorder_row.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "cellfeed/transform/simd/value_bytes.h"

#ifndef CELLFEED_TRANSFORM_REORDER_ROW_SCRATCH
#define CELLFEED_TRANSFORM_REORDER_ROW_SCRATCH
namespace cellfeed::transform {

// Of a thread. The first marks are of the columns -64 to -1, so that what is dropped needs no test.
struct ReorderScratch {
  // Of 64 columns: which of them the row has, and how many it has before them. Apart, so that both
  // take little of the nearest cache.
  std::vector<std::uint64_t> marks;  // zero between calls
  std::vector<std::uint32_t> before;
  std::vector<std::int32_t> columns;
  std::vector<std::byte> values;

  void reserve(std::size_t n_marks, std::size_t n, std::size_t value_bytes) {
    if (marks.size() < n_marks) {
      marks.resize(n_marks);
      before.resize(n_marks);
    }
    if (columns.size() < n) columns.resize(n);
    if (values.size() < n * value_bytes) values.resize(n * value_bytes);
  }
};

}  // namespace cellfeed::transform
#endif

HWY_BEFORE_NAMESPACE();
namespace cellfeed::transform {
namespace HWY_NAMESPACE {

// Marks all columns; then an entry's place is the number of marks before its own. No branch depends
// on the data. What is dropped goes behind what is kept: where there is any, the row has room.
template <typename T, typename ColumnOf>
std::size_t reorder(std::int32_t* indices, T* values, std::size_t n, std::size_t n_cols,
                    const ColumnOf& column_of, ReorderScratch& scratch) {
  const std::size_t n_marks = 1 + (n_cols + 63) / 64;
  scratch.reserve(n_marks, n, sizeof(T));
  std::uint64_t* HWY_RESTRICT marks = scratch.marks.data() + 1;
  std::uint32_t* HWY_RESTRICT before = scratch.before.data() + 1;
  std::int32_t* HWY_RESTRICT columns = scratch.columns.data();
  for (std::size_t i = 0; i < n; ++i) {
    const std::int32_t column = column_of(indices[i]);
    columns[i] = column;
    marks[column >> 6] |= std::uint64_t{1} << (column & 63);
  }
  std::memcpy(scratch.values.data(), values, n * sizeof(T));
  std::uint32_t kept = 0;
  for (std::size_t m = 0; m + 1 < n_marks; ++m) {
    before[m] = kept;
    kept += static_cast<std::uint32_t>(hwy::PopCount(marks[m]));
  }
  before[-1] = kept;
  const T* HWY_RESTRICT old_values = reinterpret_cast<const T*>(scratch.values.data());
  for (std::size_t i = 0; i < n; ++i) {
    const std::int32_t column = columns[i];
    const std::uint64_t lower = (std::uint64_t{1} << (column & 63)) - 1;
    const std::size_t place = before[column >> 6] + hwy::PopCount(marks[column >> 6] & lower);
    indices[place] = column;
    values[place] = old_values[i];
  }
  std::fill_n(scratch.marks.begin(), n_marks, std::uint64_t{0});
  return kept;
}

template <typename T, typename Place>
std::size_t reorder_mapped(std::int32_t* indices, void* values, std::size_t n, const Place* map,
                           std::size_t n_cols, ReorderScratch& scratch) {
  const auto run = [&](const auto& column_of) {
    return reorder(indices, static_cast<T*>(values), n, n_cols, column_of, scratch);
  };
  if (map == nullptr) return run([](std::int32_t column) { return column; });
  return run([map](std::int32_t column) -> std::int32_t { return map[column]; });
}

std::size_t reorder_4(std::int32_t* indices, void* values, std::size_t n, const std::int32_t* map,
                      std::size_t n_cols, ReorderScratch& scratch) {
  return reorder_mapped<std::uint32_t>(indices, values, n, map, n_cols, scratch);
}
std::size_t reorder_8(std::int32_t* indices, void* values, std::size_t n, const std::int32_t* map,
                      std::size_t n_cols, ReorderScratch& scratch) {
  return reorder_mapped<std::uint64_t>(indices, values, n, map, n_cols, scratch);
}
std::size_t reorder_narrow_4(std::int32_t* indices, void* values, std::size_t n,
                             const std::uint16_t* map, std::size_t n_cols,
                             ReorderScratch& scratch) {
  return reorder_mapped<std::uint32_t>(indices, values, n, map, n_cols, scratch);
}
std::size_t reorder_narrow_8(std::int32_t* indices, void* values, std::size_t n,
                             const std::uint16_t* map, std::size_t n_cols,
                             ReorderScratch& scratch) {
  return reorder_mapped<std::uint64_t>(indices, values, n, map, n_cols, scratch);
}

}  // namespace HWY_NAMESPACE
}  // namespace cellfeed::transform
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cellfeed::transform {
namespace {

HWY_EXPORT(reorder_4);
HWY_EXPORT(reorder_8);
HWY_EXPORT(reorder_narrow_4);
HWY_EXPORT(reorder_narrow_8);

ReorderScratch& scratch_of_thread() {
  static thread_local ReorderScratch scratch;
  return scratch;
}

}  // namespace

std::size_t reorder_row(std::int32_t* indices, void* values, std::size_t value_bytes, std::size_t n,
                        const std::int32_t* map, std::size_t n_cols) {
  if (n == 0) return 0;
  require_4_or_8(value_bytes);
  const auto reorder =
      value_bytes == 4 ? HWY_DYNAMIC_DISPATCH(reorder_4) : HWY_DYNAMIC_DISPATCH(reorder_8);
  return reorder(indices, values, n, map, n_cols, scratch_of_thread());
}

std::size_t reorder_row(std::int32_t* indices, void* values, std::size_t value_bytes, std::size_t n,
                        const std::uint16_t* map, std::size_t n_cols) {
  if (n == 0) return 0;
  require_4_or_8(value_bytes);
  const auto reorder = value_bytes == 4 ? HWY_DYNAMIC_DISPATCH(reorder_narrow_4)
                                        : HWY_DYNAMIC_DISPATCH(reorder_narrow_8);
  return reorder(indices, values, n, map, n_cols, scratch_of_thread());
}

}  // namespace cellfeed::transform
#endif
