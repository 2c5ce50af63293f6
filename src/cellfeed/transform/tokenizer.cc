#include "cellfeed/transform/tokenizer.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/base/random_bits.h"
#include "cellfeed/matrix/gene_names.h"
#include "cellfeed/transform/quantile_bins.h"
#include "cellfeed/transform/rank_places.h"
#include "cellfeed/transform/simd/token_values.h"

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
  std::vector<std::int32_t> ids;
  std::vector<float> values;
  std::vector<std::uint32_t> places;  // rank_places of the values
  std::vector<std::uint32_t> numbers;
  std::vector<std::uint8_t> is_kept;

  void reset(std::size_t size) {
    if (ids.size() >= size) return;
    columns.resize(size);
    ids.resize(size);
    values.resize(size);
    places.resize(size);
  }
};

Work& work_of_thread() {
  static thread_local Work work;
  return work;
}

std::span<const float> values_of(const Row& row) {
  return {static_cast<const float*>(row.values), static_cast<std::size_t>(row.size)};
}

void require_expression(std::span<const float> values, const Row& row) {
  if (are_expression(values)) return;
  for (const float value : values)
    if (!are_expression({&value, 1})) refuse_value(row, value);
}

// Writes what table has of the columns of a row, all of them.
template <typename Entry>
void look_up(const Row& row, const std::vector<Entry>& table, Entry* entries) {
  const auto n = static_cast<std::size_t>(row.size);
  for (std::size_t i = 0; i < n; ++i) entries[i] = table[row.indices[i]];
}

// The same of those that are tokens, with their values; how many there are.
template <typename Entry>
std::size_t look_up_tokens(const Row& row, std::span<const std::uint8_t> keeps,
                           const std::vector<std::int32_t>& ids, const std::vector<Entry>& table,
                           Entry* entries, float* values) {
  const std::span given = values_of(row);
  std::size_t n = 0;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::int32_t c = row.indices[i];
    entries[n] = table[c];
    values[n] = given[i];
    n += static_cast<std::size_t>((given[i] > 0) & (ids[c] != kPadToken) &
                                  (keeps.empty() || keeps[c] != 0));
  }
  return n;
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
  ids_.resize(genes.names.size(), kPadToken);
  if (!options_.medians.empty()) columns_.resize(ids_.size());
  bool has_any = false;
  has_all_columns_ = true;
  for (std::size_t c = 0; c < ids_.size(); ++c)
    if (const auto it = places.find(genes.names[c]); it != places.end()) {
      has_any = true;
      ids_[c] = options_.ids[it->second];
      if (!columns_.empty()) columns_[c] = {ids_[c], options_.medians[it->second]};
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

std::span<const float> Tokenizer::collect(const Row& row,
                                          std::span<const std::uint8_t> keeps) const {
  Work& work = work_of_thread();
  std::span<const float> values = values_of(row);
  const bool is_positive = are_positive(values);
  if (!is_positive) require_expression(values, row);
  const bool takes_all = is_positive && has_all_columns_ && keeps.empty();
  const auto look_up_in = [&](const auto& table, auto* entries) {
    if (takes_all) return look_up(row, table, entries);
    values = {work.values.data(),
              look_up_tokens(row, keeps, ids_, table, entries, work.values.data())};
  };
  if (columns_.empty()) {
    look_up_in(ids_, work.ids.data());
    return values;
  }
  look_up_in(columns_, work.columns.data());
  const std::size_t n = values.size();
  const std::span quotients = std::span(work.values).first(n);
  if (!divide_values(values, std::span(work.columns).first(n), quotients,
                     std::span(work.ids).first(n)))
    throw_invalid(
        "a value divided by the median of its gene is no number that a float holds: cell {}",
        row.cell);
  return quotients;
}

std::int32_t Tokenizer::tokenize(const Row& row, std::span<const std::uint8_t> keeps,
                                 const TokenKeys& keys, std::int32_t* ids, float* values) const {
  Work& work = work_of_thread();
  work.reset(static_cast<std::size_t>(row.size));
  const std::span collected = collect(row, keeps);
  const std::int32_t first = options_.has_class_token ? 1 : 0;
  if (options_.has_class_token) {
    ids[0] = kClassToken;
    values[0] = 0;
  }
  const std::size_t written = options_.order == TokenOptions::Order::kRank
                                  ? write_ranked(collected, ids + first, values + first)
                                  : write_in_order(collected, keys, ids + first, values + first);
  return first + static_cast<std::int32_t>(written);
}

std::size_t Tokenizer::write_ranked(std::span<const float> collected, std::int32_t* ids,
                                    float* values) const {
  Work& work = work_of_thread();
  const std::size_t kept = std::min(collected.size(), room());
  const std::span places = std::span(work.places).first(collected.size());
  rank_places(collected, places);
  const std::int32_t* ids_of_cell = work.ids.data();
  for (std::size_t i = 0; i < kept; ++i) {
    const std::uint32_t place = places[i];
    ids[i] = ids_of_cell[place];
    values[i] = collected[place];
  }
  return kept;
}

std::size_t Tokenizer::write_in_order(std::span<const float> collected, const TokenKeys& keys,
                                      std::int32_t* ids, float* values) const {
  Work& work = work_of_thread();
  const std::size_t n = collected.size();
  const std::size_t kept = std::min(n, room());
  const bool is_cut = kept < n;
  const bool cuts_smallest = is_cut && options_.truncation == TokenOptions::Truncation::kSmallest;
  const bool has_bins = options_.order == TokenOptions::Order::kBins;
  const std::span places = std::span(work.places).first(n);
  if (has_bins || cuts_smallest) rank_places(collected, places);
  if (has_bins) {
    to_quantile_bins(collected, places, options_.n_bins,
                     options_.spreads_ties ? &keys.ties : nullptr, work.values);
    collected = std::span(work.values).first(n);
  }
  if (!is_cut) {
    std::copy_n(work.ids.begin(), n, ids);
    std::ranges::copy(collected, values);
    return n;
  }
  cuts_smallest ? keep_largest(n, kept, work) : keep_some(n, kept, keys.truncation, work);
  std::size_t written = 0;
  for (std::size_t i = 0; i < n; ++i)
    if (work.is_kept[i] != 0) {
      ids[written] = work.ids[i];
      values[written++] = collected[i];
    }
  return written;
}

}  // namespace cellfeed::transform
