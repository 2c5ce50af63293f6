#include "cellfeed/loader/first_values.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/collection/counts.h"
#include "cellfeed/collection/decoded_rows.h"

namespace cellfeed::loader {
namespace {

using transform::Once;

// Logarithms of counts per ten thousand end below 10, of any counts below 22 (those of 2**32).
constexpr double kHighestLogarithm = 25;

// Null where none is for counts, or the first that is shall be done to anything.
const transform::Transform* first_of_counts(const transform::Transforms& transforms) {
  const auto first = std::ranges::find_if(
      transforms, [](const auto& transform) { return transform->once() != Once::kNothing; });
  return first == transforms.end() || (*first)->is_forced() ? nullptr : first->get();
}

// Fractions may be normalised counts that are still to be made logarithms.
bool is_in_order(const collection::NoCount& found, const transform::Transform& first,
                 bool is_known_as_normalized) {
  return found.value > 0 && first.once() == Once::kLogarithm &&
         (is_known_as_normalized || found.highest >= kHighestLogarithm);
}

// Bits of the whole numbers that a type holds all of.
int whole_bits(DType dtype) {
  return dispatch_dtype(dtype,
                        [](auto zero) { return std::numeric_limits<decltype(zero)>::digits; });
}

bool is_in_question(DType stored, DType dtype, Casting casting) {
  if (stored == dtype || may_round(casting, stored, dtype)) return false;
  return is_float(stored) ? dtype != DType::kF64 : whole_bits(stored) > whole_bits(dtype);
}

using RowsOfStores = std::vector<std::pair<std::int64_t, std::vector<std::int64_t>>>;

// Rows of stores with another dtype are left out.
template <typename IsWanted>
RowsOfStores rows_by_store(const collection::Collection& collection,
                           std::span<const std::int64_t> rows, IsWanted is_wanted) {
  std::map<std::int64_t, std::vector<std::int64_t>> rows_of;
  for (const std::int64_t row : rows) {
    const auto place = collection.locate(row);
    if (is_wanted(collection.store(place.store).info().value_dtype))
      rows_of[place.store].push_back(place.row);
  }
  return {rows_of.begin(), rows_of.end()};
}

}  // namespace

bool is_in_question(const collection::Collection& collection, DType dtype, Casting casting) {
  for (std::int64_t s = 0; s < collection.n_stores(); ++s)
    if (is_in_question(collection.store(s).info().value_dtype, dtype, casting)) return true;
  return false;
}

void check_first_values(const collection::Collection& collection,
                        std::span<const std::int64_t> rows, DType dtype, Casting casting) {
  const auto is_wanted = [&](DType stored) { return is_in_question(stored, dtype, casting); };
  for (const auto& [store, own] : rows_by_store(collection, rows, is_wanted))
    collection::decode_rows(collection.store(store), own, dtype, casting);
}

bool expects_counts(const collection::Collection& collection,
                    const transform::Transforms& transforms) {
  if (first_of_counts(transforms) == nullptr) return false;
  for (std::int64_t s = 0; s < collection.n_stores(); ++s)
    if (is_float(collection.store(s).info().value_dtype)) return true;
  return false;
}

void require_counts(const collection::Collection& collection, std::span<const std::int64_t> rows,
                    const transform::Transforms& transforms) {
  if (!expects_counts(collection, transforms)) return;
  const transform::Transform& first = *first_of_counts(transforms);
  const RowsOfStores looks =
      rows_by_store(collection, rows, [](DType stored) { return is_float(stored); });
  collection.step_stores(std::ssize(looks), [&](std::int64_t i) {
    const auto& [s, own] = looks[static_cast<std::size_t>(i)];
    const auto& store = collection.store(s);
    const auto found = collection::find_no_count(store, own);
    if (!found || is_in_order(*found, first, collection.processing(s).is_normalized)) return;
    throw_error(
        ErrorKind::kInvalidArgument, store.info().path,
        "{} expects counts, and cell {}, gene '{}' holds {:g}, so the values look {}: {}, or "
        "force it ({}(force=True))",
        first.name(), found->row, store.genes().names[found->column], found->value,
        found->value < 0 ? "scaled" : "normalised or log-transformed",
        collection::where_counts_are(store, own), first.name());
  });
}

}  // namespace cellfeed::loader
