// Normalisation of expression values as scanpy does it: NormalizeTotal (pp.normalize_total) and
// Log1p (pp.log1p).
#pragma once

#include "cellfeed/transform/transform.h"

namespace cellfeed::transform {

// The total of the row's values as they are now. Throws kInvalidArgument where values other than 0
// cancel out. REQUIRES: a row of floats with all genes of its store.
double library_size(const Row& row);
// The same of a row that has but some of the genes, whose total is known; throws kInvalidArgument
// too where that cannot be.
double library_size(const Row& row, double total);

// value * target_sum / library_size, over the cell's full library. A cell without
// counts stays as it is.
class NormalizeTotal final : public Transform {
 public:
  // Throws kInvalidArgument unless target_sum is in [1e-30, 1e30]. is_forced: also of data that is
  // normalised already.
  explicit NormalizeTotal(double target_sum = 1e4, bool is_forced = false);
  std::string name() const override { return "NormalizeTotal"; }
  void apply(Row& row) const override;
  bool needs_library_size() const override { return true; }
  bool needs_float() const override { return true; }
  Once once() const override { return Once::kNormalization; }
  bool is_forced() const override { return is_forced_; }
  double target_sum() const { return target_sum_; }
  // What the values of this row are multiplied by; throws kInvalidArgument where its library size
  // is not that of counts.
  double factor(const Row& row) const;

 private:
  double target_sum_;
  bool is_forced_;
};

// log(1 + value), divided by log(base) where a base is given (0 = natural). apply throws
// kInvalidArgument for a value of -1 or less.
class Log1p final : public Transform {
 public:
  // Throws kInvalidArgument for a base that is not > 0 and != 1. is_forced: also of logarithms.
  explicit Log1p(double base = 0, bool is_forced = false);
  std::string name() const override { return "Log1p"; }
  void apply(Row& row) const override;
  bool needs_float() const override { return true; }
  Once once() const override { return Once::kLogarithm; }
  bool is_forced() const override { return is_forced_; }
  double unit() const { return unit_; }

 private:
  double unit_;  // 1 / log(base)
  bool is_forced_;
};

// NormalizeTotal and then Log1p, in one pass over the values; bit for bit what the two give.
class NormalizedLog1p final : public Transform {
 public:
  NormalizedLog1p(const NormalizeTotal& first, const Log1p& second)
      : first_(first), second_(second) {}
  std::string name() const override { return "NormalizeTotal, Log1p"; }
  void apply(Row& row) const override;
  bool needs_library_size() const override { return true; }
  bool needs_float() const override { return true; }

 private:
  NormalizeTotal first_;
  Log1p second_;
};

}  // namespace cellfeed::transform
