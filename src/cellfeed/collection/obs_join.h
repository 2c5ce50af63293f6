// One obs column over several stores: labels encoded to one numbering, numbers to one dtype.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/collection/label_map.h"
#include "cellfeed/matrix/batch.h"
#include "cellfeed/matrix/obs.h"
#include "cellfeed/matrix/obs_union.h"

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
  // Throws what unite_obs throws; kInvalidArgument for labels that the map lacks.
  JoinedColumn(std::string name, std::vector<std::shared_ptr<const matrix::FixedColumn>> columns,
               std::span<const std::string> paths, const LabelMap& map = {});

  // Throws kPrecision where gather() rounds: a whole number beside missing ones, or beside numbers
  // of another type, that dtype() cannot hold.
  void require_exact() const;
  const std::string& name() const { return name_; }
  bool is_categorical() const { return is_categorical_; }
  bool ordered() const { return ordered_; }
  // What gather writes: int64 codes of a categorical; else the united dtype, float64 where integers
  // or booleans are missing.
  DType dtype() const { return dtype_; }
  // The united dtype of what the stores hold, also where missing values make dtype() float64.
  DType stored_dtype() const { return stored_dtype_; }
  // Typed: all text, all booleans, or all numbers of one type.
  const matrix::Categories& categories() const { return categories_; }
  void gather(std::span<const RowPlace> places, void* out) const;

 private:
  void join_labels(matrix::UnitedObs&& united, const LabelMap& map);
  void join_numbers(std::span<const std::string> paths, DType united);
  std::int64_t code_at(const RowPlace& place) const;
  void require_intact(std::span<const RowPlace> places) const;

  std::string name_;
  std::optional<Error> inexact_;
  std::vector<std::shared_ptr<const matrix::FixedColumn>> columns_;
  bool has_checked_sources_ = false;
  bool is_categorical_ = false;
  bool ordered_ = false;
  DType dtype_ = DType::kI64;
  DType stored_dtype_ = DType::kI64;
  matrix::Categories categories_;
  std::vector<std::int64_t> n_codes_;  // per store
  // Per store: its code -> the joined code, -1 for missing; null where they are the same.
  std::vector<std::shared_ptr<const matrix::Recoding>> recodings_;
};

}  // namespace cellfeed::collection
