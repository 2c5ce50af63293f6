// Rows and packed records for the tests of records.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <type_traits>
#include <vector>

#include "cellfeed/format/shard/record/record.h"

namespace cellfeed::format::shard {

inline constexpr std::int64_t kColumns = 20000;

template <typename T>
struct Row {
  std::vector<std::int32_t> indices;
  std::vector<T> values;
};

template <typename T>
using OutType = std::conditional_t<std::is_floating_point_v<T>, T,
                                   std::conditional_t<sizeof(T) <= 2, std::int32_t, std::int64_t>>;

// A record with the padding a caller owes and no more, so that a sanitizer sees reads behind it.
struct Packed {
  std::vector<std::uint8_t> bytes;
  std::size_t length = 0;
  std::span<const std::uint8_t> view() const { return {bytes.data(), length}; }
};

template <typename T>
Packed pack(const Row<T>& row) {
  Packed packed;
  encode_record(row.indices, row.values.data(), dtype_of<T>(), packed.bytes);
  packed.length = packed.bytes.size();
  packed.bytes.resize(packed.length + kRecordPaddingBytes, 0xee);
  packed.bytes.shrink_to_fit();
  return packed;
}

template <typename Out>
Row<Out> unpack(const Packed& packed, std::size_t nnz, std::int64_t n_cols, DType stored,
                Casting casting = Casting::kExact, OverrunRoom room = OverrunRoom::kNone) {
  const std::size_t extra = room == OverrunRoom::kNone ? 0 : 64;
  std::vector<std::int32_t> indices(nnz + extra);
  std::vector<Out> values(nnz + extra);
  decode_record(packed.view(), static_cast<std::int64_t>(nnz), n_cols, stored, dtype_of<Out>(),
                casting, indices.data(), values.data(), room);
  indices.resize(nnz);
  values.resize(nnz);
  return {indices, values};
}

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

inline std::vector<std::int32_t> random_indices(std::size_t nnz, std::int64_t n_cols,
                                                std::mt19937_64& random) {
  std::vector<std::int32_t> indices;
  std::int64_t left = static_cast<std::int64_t>(nnz);
  for (std::int64_t column = 0; left > 0; ++column) {
    if (static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n_cols - column)) < left) {
      indices.push_back(static_cast<std::int32_t>(column));
      --left;
    }
  }
  return indices;
}

inline std::int64_t heavy_tailed_count(std::mt19937_64& random) {
  const double u = std::generate_canonical<double, 53>(random);
  return 1 + static_cast<std::int64_t>(std::min(1e6, std::pow(u + 1e-9, -1.2) - 1));
}

}  // namespace cellfeed::format::shard
