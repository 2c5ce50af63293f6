// FixedObsBuilder: gathers one fixed-width obs column of a shard: numbers, booleans as bytes, or
// categorical codes in the narrowest signed integer. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cellfeed/base/dtype.h"

namespace arrow {
class Array;
class Buffer;
class DictionaryUnifier;
class Field;
}  // namespace arrow

namespace cellfeed::format::shard {

// Field metadata of the .arrow file: "bool" marks a uint8 column whose bytes are booleans.
inline constexpr const char* kDtypeKey = "cellfeed.dtype";

// False for text and other types that only the Parquet file keeps.
bool is_fixed_width(const arrow::Field& field);

class FixedObsBuilder {
 public:
  // REQUIRES: is_fixed_width(*field).
  explicit FixedObsBuilder(std::shared_ptr<arrow::Field> field);
  ~FixedObsBuilder();
  FixedObsBuilder(FixedObsBuilder&&) noexcept;

  void append(const arrow::Array& chunk);  // of the field's type
  struct Finished {
    std::shared_ptr<arrow::Field> field;
    std::shared_ptr<arrow::Array> array;
  };
  Finished finish();

 private:
  template <typename T>
  void append_values(const T* values, std::int64_t n, const arrow::Array& chunk, T missing);
  void append_codes(const arrow::Array& chunk);
  void widen(DType wider);
  void append_validity(const arrow::Array& chunk);
  std::shared_ptr<arrow::Buffer> validity_buffer() const;

  std::shared_ptr<arrow::Field> field_;
  DType dtype_;
  std::int64_t length_ = 0;
  std::int64_t n_missing_ = 0;
  std::vector<std::uint8_t> values_;
  std::vector<std::uint8_t> validity_;  // one bit a row, 1 = present
  std::unique_ptr<arrow::DictionaryUnifier> categories_;
};

}  // namespace cellfeed::format::shard
