#include "cellfeed/loader/first_values.h"

#include <limits>
#include <map>
#include <numeric>
#include <vector>

#include "cellfeed/matrix/buffer.h"

namespace cellfeed::loader {
namespace {

// Bits of the whole numbers that a type holds all of.
int whole_bits(DType dtype) {
  return dispatch_dtype(dtype,
                        [](auto zero) { return std::numeric_limits<decltype(zero)>::digits; });
}

bool is_in_question(DType stored, DType dtype, Casting casting) {
  if (stored == dtype || may_round(casting, stored, dtype)) return false;
  return is_float(stored) ? dtype != DType::kF64 : whole_bits(stored) > whole_bits(dtype);
}

void decode(const collection::FetchedRows& fetched, DType dtype, Casting casting) {
  const auto n = static_cast<std::size_t>(fetched.n_rows());
  std::vector<std::int64_t> place(n + 1);
  fetched.sizes(std::span(place).subspan(1));
  std::partial_sum(place.begin(), place.end(), place.begin());
  const auto capacity = static_cast<std::size_t>(place.back());
  matrix::Buffer<std::int32_t> indices(capacity);
  matrix::Buffer<std::byte> values(capacity * dtype_bytes(dtype));
  std::vector<std::int32_t> counts(n);
  fetched.decode(
      0, fetched.n_rows(),
      {place.data(), indices.data(), values.data(), dtype, casting, counts.data(), false});
}

}  // namespace

bool is_in_question(const collection::Collection& collection, DType dtype, Casting casting) {
  for (std::int64_t s = 0; s < collection.n_stores(); ++s)
    if (is_in_question(collection.store(s).info().value_dtype, dtype, casting)) return true;
  return false;
}

void check_first_values(const collection::Collection& collection,
                        std::span<const std::int64_t> rows, DType dtype, Casting casting) {
  std::map<std::int32_t, std::vector<std::int64_t>> rows_of;
  for (const std::int64_t row : rows) {
    const auto place = collection.locate(row);
    if (is_in_question(collection.store(place.store).info().value_dtype, dtype, casting))
      rows_of[place.store].push_back(place.row);
  }
  for (const auto& [store, own] : rows_of)
    decode(*collection::fetch_rows(collection.store(store), own), dtype, casting);
}

}  // namespace cellfeed::loader
