#include "cellfeed/transform/tokenizer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/base/random_bits.h"
#include "cellfeed/matrix/gene_names.h"
#include "cellfeed/transform/quantile_bins.h"
#include "cellfeed/transform/rank_places.h"

namespace cellfeed::transform {
namespace {

void check(const TokenOptions& options) {
  const std::int32_t least = options.has_class_token ? 2 : 1;
  if (options.max_length < least)
    throw_invalid("max_length is {}; it must be at least {}{}", options.max_length, least,
                  options.has_class_token ? ", as the class token is one of them" : "");
  if (options.max_length > kMostTokens)
    throw_invalid("max_length is {}, and no cell has more than {} tokens", options.max_length,
                  kMostTokens);
  if (options.order == TokenOptions::Order::kBins && options.n_bins < kFewestBins)
    throw_invalid("n_bins is {}; it must be at least {}: bin 0 is for no expression",
                  options.n_bins, kFewestBins);
  if (options.genes.size() != options.ids.size())
    throw_invalid("a vocabulary of {} genes has {} numbers", options.genes.size(),
                  options.ids.size());
  if (!options.medians.empty() && options.medians.size() != options.genes.size())
    throw_invalid("{} medians are given for {} genes", options.medians.size(),
                  options.genes.size());
  for (std::size_t i = 0; i < options.ids.size(); ++i)
    if (options.ids[i] < kFirstGeneToken)
      throw_invalid("gene '{}' has number {}; numbers below {} are for special tokens",
                    options.genes[i], options.ids[i], kFirstGeneToken);
  for (std::size_t i = 0; i < options.medians.size(); ++i)
    if (!(options.medians[i] > 0 && std::isfinite(options.medians[i])))
      throw_invalid("the median of gene '{}' is {}; it must be a positive number", options.genes[i],
                    options.medians[i]);
}

[[noreturn]] void refuse_value(const Row& row, float value) {
  throw_invalid(
      "tokens are made of expression values, which are finite and not negative, but a value is {}: "
      "cell {}; remove NaN, infinite or negative values, or leave out what scaled the data",
      value, row.cell);
}

// What a thread makes the tokens of a cell in: one place a gene that is a token.
struct Work {
  std::vector<TokenColumn> columns;
  std::vector<float> values;
  std::vector<std::uint32_t> places;  // rank_places of the values
  std::vector<float> ranked;
  std::vector<std::uint32_t> numbers;
  std::vector<std::uint8_t> is_kept;

  void reset(std::size_t size) {
    if (columns.size() >= size) return;
    columns.resize(size);
    values.resize(size);
    places.resize(size);
    ranked.resize(size);
  }
};

Work& work_of_thread() {
  static thread_local Work work;
  return work;
}

// Values are looked at by their bits, which compilers make vectors of: NaN and infinity are above
// the largest number, what is negative has the sign, and so has -0, which is a number.
constexpr auto kLargest = std::bit_cast<std::int32_t>(std::numeric_limits<float>::max());

bool are_positive(std::span<const float> values) {
  std::int32_t n_bad = 0;
  for (const float value : values) {
    const auto bits = std::bit_cast<std::int32_t>(value);
    n_bad += static_cast<std::int32_t>(bits > kLargest) | static_cast<std::int32_t>(bits <= 0);
  }
  return n_bad == 0;
}

bool are_expression(std::span<const float> values) {
  constexpr auto kMinusZero = std::numeric_limits<std::int32_t>::min();
  std::int32_t n_bad = 0;
  for (const float value : values) {
    const auto bits = std::bit_cast<std::int32_t>(value);
    n_bad += static_cast<std::int32_t>(bits > kLargest) |
             (static_cast<std::int32_t>(bits < 0) & static_cast<std::int32_t>(bits != kMinusZero));
  }
  return n_bad == 0;
}

std::span<const float> values_of(const Row& row) {
  return {static_cast<const float*>(row.values), static_cast<std::size_t>(row.size)};
}

void require_expression(std::span<const float> values, const Row& row) {
  if (are_expression(values)) return;
  for (const float value : values)
    if (!are_expression({&value, 1})) refuse_value(row, value);
}

void divide(const Row& row, std::size_t n, Work& work) {
  const TokenColumn* columns = work.columns.data();
  float* values = work.values.data();
  for (std::size_t i = 0; i < n; ++i) values[i] /= columns[i].divisor;
  if (are_expression(std::span(work.values).first(n))) return;
  throw_invalid(
      "a value divided by the median of its gene is no number that a float holds: cell {}",
      row.cell);
}

// Marks which of n are kept, so many of them, each as likely as any other.
void keep_some(std::size_t n, std::size_t room, std::uint64_t key, Work& work) {
  work.numbers.resize(n);
  for (std::size_t i = 0; i < n; ++i) work.numbers[i] = static_cast<std::uint32_t>(i);
  work.is_kept.assign(n, 0);
  for (std::size_t i = 0; i < room; ++i) {
    std::swap(work.numbers[i], work.numbers[i + scale_bits(splitmix64(key, i), n - i)]);
    work.is_kept[work.numbers[i]] = 1;
  }
}

void keep_largest(std::size_t n, std::size_t room, Work& work) {
  work.is_kept.assign(n, 0);
  for (std::size_t i = 0; i < room; ++i) work.is_kept[work.places[i]] = 1;
}

}  // namespace

Tokenizer::Tokenizer(TokenOptions options, const matrix::GeneAxis& genes)
    : options_(std::move(options)) {
  check(options_);
  std::unordered_map<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < options_.genes.size(); ++i)
    if (!places.emplace(options_.genes[i], i).second)
      throw_invalid("the vocabulary has gene '{}' twice", options_.genes[i]);
  columns_.resize(genes.names.size());
  bool has_any = false;
  has_all_columns_ = true;
  for (std::size_t c = 0; c < columns_.size(); ++c)
    if (const auto it = places.find(genes.names[c]); it != places.end()) {
      has_any = true;
      columns_[c].id = options_.ids[it->second];
      if (!options_.medians.empty()) columns_[c].divisor = options_.medians[it->second];
    } else {
      has_all_columns_ = false;
    }
  if (has_any) return;
  const matrix::GeneAxis* axes[] = {&genes};
  const std::string why = matrix::explain_missing_genes(options_.genes, axes);
  throw Error(ErrorKind::kNoSuchKey,
              fmt::format("the data has none of the {} genes of the vocabulary: data: {}; "
                          "vocabulary: {}{}{}",
                          options_.genes.size(), matrix::some_names(genes.names),
                          matrix::some_names(options_.genes), why.empty() ? "" : "; ", why));
}

std::int64_t Tokenizer::max_tokens(std::int64_t entries) const {
  return std::min<std::int64_t>(entries + (options_.has_class_token ? 1 : 0), options_.max_length);
}

std::size_t Tokenizer::collect(const Row& row, std::span<const std::uint8_t> keeps,
                               TokenColumn* columns, float* values) const {
  const std::span given = values_of(row);
  const bool is_positive = are_positive(given);
  if (!is_positive) require_expression(given, row);
  if (is_positive && has_all_columns_ && keeps.empty()) {
    for (std::size_t i = 0; i < given.size(); ++i) columns[i] = columns_[row.indices[i]];
    std::ranges::copy(given, values);
    return given.size();
  }
  std::size_t n = 0;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::int32_t c = row.indices[i];
    const TokenColumn column = columns_[c];
    columns[n] = column;
    values[n] = given[i];
    n += static_cast<std::size_t>((given[i] > 0) & (column.id != kPadToken) &
                                  (keeps.empty() || keeps[c] != 0));
  }
  return n;
}

std::int32_t Tokenizer::tokenize(const Row& row, std::span<const std::uint8_t> keeps,
                                 const TokenKeys& keys, std::int32_t* ids, float* values) const {
  Work& work = work_of_thread();
  work.reset(static_cast<std::size_t>(row.size));
  const std::size_t n = collect(row, keeps, work.columns.data(), work.values.data());
  if (!options_.medians.empty()) divide(row, n, work);
  const std::int32_t first = options_.has_class_token ? 1 : 0;
  if (options_.has_class_token) {
    ids[0] = kClassToken;
    values[0] = 0;
  }
  const std::size_t written = options_.order == TokenOptions::Order::kRank
                                  ? write_ranked(n, ids + first, values + first)
                                  : write_in_order(n, keys, ids + first, values + first);
  return first + static_cast<std::int32_t>(written);
}

std::size_t Tokenizer::write_ranked(std::size_t n, std::int32_t* ids, float* values) const {
  Work& work = work_of_thread();
  const std::size_t kept = std::min(n, room());
  const std::span places = std::span(work.places).first(n);
  const std::span ranked(kept < n ? work.ranked.data() : values, n);
  rank_places(std::span(work.values).first(n), places, ranked);
  if (kept < n) std::copy_n(ranked.begin(), kept, values);
  const TokenColumn* columns = work.columns.data();
  for (std::size_t i = 0; i < kept; ++i) ids[i] = columns[places[i]].id;
  return kept;
}

std::size_t Tokenizer::write_in_order(std::size_t n, const TokenKeys& keys, std::int32_t* ids,
                                      float* values) const {
  Work& work = work_of_thread();
  const std::size_t kept = std::min(n, room());
  const bool is_cut = kept < n;
  const bool cuts_smallest = is_cut && options_.truncation == TokenOptions::Truncation::kSmallest;
  const bool has_bins = options_.order == TokenOptions::Order::kBins;
  const std::span values_of_cell = std::span(work.values).first(n);
  const std::span places = std::span(work.places).first(n);
  if (has_bins || cuts_smallest)
    rank_places(values_of_cell, places, std::span(work.ranked).first(n));
  if (has_bins)
    to_quantile_bins(values_of_cell, places, options_.n_bins,
                     options_.spreads_ties ? &keys.ties : nullptr, work.values);
  if (!is_cut) {
    for (std::size_t i = 0; i < n; ++i) ids[i] = work.columns[i].id;
    std::copy_n(work.values.begin(), n, values);
    return n;
  }
  cuts_smallest ? keep_largest(n, kept, work) : keep_some(n, kept, keys.truncation, work);
  std::size_t written = 0;
  for (std::size_t i = 0; i < n; ++i)
    if (work.is_kept[i] != 0) {
      ids[written] = work.columns[i].id;
      values[written++] = work.values[i];
    }
  return written;
}

}  // namespace cellfeed::transform
