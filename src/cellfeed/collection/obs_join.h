// One obs column over several stores: labels encoded to one numbering, numbers to one dtype
// (SEMANTICS 8).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/matrix/batch.h"
#include "cellfeed/matrix/obs.h"

namespace cellfeed::collection {

// Where a row lies: store number and row inside it.
struct RowPlace {
  std::int32_t store = 0;
  std::int64_t row = 0;
};

// Thread-safe: immutable once made.
class JoinedColumn {
 public:
  // columns[s] is null where store s lacks the column: its rows are missing.
  // Throws kInvalidArgument when a column is labels in one store and numbers in another.
  JoinedColumn(std::string name, std::vector<std::shared_ptr<const matrix::FixedColumn>> columns,
               std::span<const std::string> paths);

  const std::string& name() const { return name_; }
  bool is_categorical() const { return is_categorical_; }
  bool ordered() const { return ordered_; }
  // What gather writes: int64 codes of a categorical; else the promoted dtype, float64 where rows
  // are missing.
  DType dtype() const { return dtype_; }
  const std::vector<std::string>& categories() const { return categories_; }
  void gather(std::span<const RowPlace> places, void* out) const;

 private:
  void join_categories(std::span<const std::string> paths);
  void join_numbers(std::span<const std::string> paths);

  std::string name_;
  std::vector<std::shared_ptr<const matrix::FixedColumn>> columns_;
  bool is_categorical_ = false;
  bool ordered_ = false;
  DType dtype_ = DType::kI64;
  std::vector<std::string> categories_;
  std::vector<std::vector<std::int64_t>> recode_;  // per store: its code -> the joined code
};

}  // namespace cellfeed::collection
