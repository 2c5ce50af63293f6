// Transform: changes rows of a batch in place, on the loader's threads, row by row.
//
// There are two kinds. SelectGenes chooses columns. Every other one changes values one by one: the
// new value depends on the old one and the row's total alone, and 0 stays 0. So the two kinds
// commute, and a list of transforms means: values change in its order over all genes of the store,
// then columns are chosen (fusion.h).
//
// To add a transform: derive from Transform, keep it pure, add it to bindings/bind_transform.cc,
// and compare it with scanpy or numpy. Thread-safe: apply runs on disjoint rows at once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cellfeed/base/dtype.h"
#include "cellfeed/matrix/csr.h"

namespace cellfeed::transform {

// One decoded row, wherever it lies. A transform may change values, and shorten the row by moving
// entries to its front.
struct Row {
  std::int32_t* indices = nullptr;  // sorted
  void* values = nullptr;           // of dtype
  DType dtype = DType::kF32;
  std::int32_t size = 0;
  // Sum of the values over all genes of the store, as the transforms before this one left them.
  double library_size = 0;
  std::int64_t cell = 0;  // global row number, for messages
};

// Memory for the entries of a row; none where it is null.
struct RowRoom {
  std::int32_t* indices = nullptr;
  void* values = nullptr;
};

// What is done to values once: neither of the two to logarithms.
enum class Once { kNothing, kNormalization, kLogarithm };

// Shared from this for the reason given in sampling/strategy.h.
class Transform : public std::enable_shared_from_this<Transform> {
 public:
  virtual ~Transform() = default;
  virtual std::string name() const = 0;  // as users type it: "NormalizeTotal"
  virtual void apply(Row& row) const = 0;
  virtual bool needs_library_size() const { return false; }
  virtual bool needs_float() const { return false; }
  virtual Once once() const { return Once::kNothing; }
  // It is done although it was done before.
  virtual bool is_forced() const { return false; }
  // A copy that knows the columns it will see; null where this transform does not depend on them.
  // Throws kNoSuchKey when it needs a gene that is not there.
  virtual std::shared_ptr<const Transform> bind(const matrix::GeneAxis&) const { return nullptr; }
  // The columns after this transform.
  virtual matrix::GeneAxis output_genes(const matrix::GeneAxis& input) const { return input; }
};

}  // namespace cellfeed::transform
