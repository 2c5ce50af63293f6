#include "cellfeed/transform/token_masking.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/base/random_bits.h"
#include "cellfeed/transform/simd/token_values.h"
#include "cellfeed/transform/tokenizer.h"

namespace cellfeed::transform {
namespace {

void require_share(double share, const char* name) {
  if (!(share >= 0 && share <= 1)) throw_invalid("{} is {}; it must be from 0 to 1", name, share);
}

std::size_t share_of(double share, std::size_t n) {
  return static_cast<std::size_t>(std::nearbyint(share * static_cast<double>(n)));
}

}  // namespace

TokenMasking::TokenMasking(MaskingOptions options, std::vector<std::int32_t> ids)
    : options_(options), ids_(std::move(ids)) {
  if (!(options_.fraction > 0 && options_.fraction <= 1))
    throw_invalid("fraction is {}; it must be above 0 and at most 1", options_.fraction);
  require_share(options_.mask_share, "mask_share");
  require_share(options_.random_share, "random_share");
  if (options_.mask_share + options_.random_share > 1)
    throw_invalid("mask_share {} and random_share {} are more than 1 together", options_.mask_share,
                  options_.random_share);
  if (ids_.empty()) throw_invalid("masking needs a vocabulary with genes");
}

void TokenMasking::hide(const TokenRow& row, std::int32_t first, std::int32_t end,
                        std::uint64_t key) const {
  if (first >= end) return;
  const auto n = static_cast<std::size_t>(end - first);
  const std::size_t n_chosen = std::max<std::size_t>(1, share_of(options_.fraction, n));
  const std::size_t n_masked = share_of(options_.mask_share, n_chosen);
  const std::size_t random_end = n_masked + share_of(options_.random_share, n_chosen);
  static thread_local std::vector<std::int32_t> places;
  places.resize(n);
  for (std::size_t i = 0; i < n; ++i) places[i] = first + static_cast<std::int32_t>(i);
  for (std::size_t i = 0; i < n_chosen; ++i) {
    // The upper half chooses the token, the lower half the gene that takes its place.
    const std::uint64_t bits = splitmix64(key, i);
    std::swap(places[i], places[i + ((bits >> 32) * (n - i) >> 32)]);
    const std::int32_t at = places[i];
    if (options_.predicts_genes) {
      row.labels[at] = row.ids[at];
      if (i < n_masked)
        row.ids[at] = kMaskToken;
      else if (i < random_end)
        row.ids[at] = ids_[(bits & 0xFFFFFFFFu) * ids_.size() >> 32];
      continue;
    }
    row.target_values[at] = row.values[at];
    if (row.labels != nullptr) row.labels[at] = static_cast<std::int64_t>(row.values[at]);
    row.values[at] = options_.mask_value;
  }
}

void predict_nothing(const TokenRow& row, std::size_t n) {
  if (row.labels != nullptr) fill_values({row.labels, n}, kNoLabel);
  if (row.target_values != nullptr)
    std::fill_n(row.target_values, n, std::numeric_limits<float>::quiet_NaN());
}

}  // namespace cellfeed::transform
