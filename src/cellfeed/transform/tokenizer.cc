#include "cellfeed/transform/tokenizer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/base/random_bits.h"
#include "cellfeed/matrix/gene_names.h"
#include "cellfeed/transform/quantile_bins.h"
#include "cellfeed/transform/rank_entries.h"

namespace cellfeed::transform {
namespace {

using Entries = std::vector<std::uint64_t>;

void check(const TokenOptions& options) {
  const std::int32_t least = options.has_class_token ? 2 : 1;
  if (options.max_length < least)
    throw_invalid("max_length is {}; it must be at least {}{}", options.max_length, least,
                  options.has_class_token ? ", as the class token is one of them" : "");
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

// Marks which of n are kept, so many of them, each as likely as any other.
void keep_some(std::size_t n, std::size_t room, std::uint64_t key,
               std::vector<std::uint8_t>* is_kept) {
  static thread_local std::vector<std::uint32_t> numbers;
  numbers.resize(n);
  for (std::size_t i = 0; i < n; ++i) numbers[i] = static_cast<std::uint32_t>(i);
  is_kept->assign(n, 0);
  for (std::size_t i = 0; i < room; ++i) {
    std::swap(numbers[i], numbers[i + scale_bits(splitmix64(key, i), n - i)]);
    (*is_kept)[numbers[i]] = 1;
  }
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
  for (std::size_t c = 0; c < columns_.size(); ++c)
    if (const auto it = places.find(genes.names[c]); it != places.end()) {
      has_any = true;
      columns_[c].id = options_.ids[it->second];
      if (!options_.medians.empty()) columns_[c].divisor = options_.medians[it->second];
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

std::int32_t Tokenizer::tokenize(const Row& row, std::span<const std::uint8_t> keeps,
                                 const TokenKeys& keys, std::int32_t* ids, float* values) const {
  static thread_local Entries sorted;  // values, and places in tokens
  static thread_local std::vector<std::int32_t> tokens;
  static thread_local std::vector<float> raw;
  const auto size = static_cast<std::size_t>(row.size);
  sorted.resize(size);
  tokens.resize(size);
  raw.resize(size);
  const auto* of_row = static_cast<const float*>(row.values);
  std::size_t n = 0;
  for (std::size_t i = 0; i < size; ++i) {
    const std::int32_t c = row.indices[i];
    const Column column = columns_[c];
    if (!(of_row[i] >= 0)) refuse_value(row, of_row[i]);
    const float value = of_row[i] / column.divisor;
    if (!(value <= std::numeric_limits<float>::max())) refuse_value(row, of_row[i]);
    const bool is_token =
        (of_row[i] > 0) & (column.id != kPadToken) & (keeps.empty() || keeps[c] != 0);
    tokens[n] = column.id;
    raw[n] = value;
    sorted[n] = rank_entry(value, static_cast<std::uint32_t>(n));
    n += is_token ? 1 : 0;
  }
  sorted.resize(n);
  std::int32_t written = 0;
  if (options_.has_class_token) {
    ids[0] = kClassToken;
    values[0] = 0;
    written = 1;
  }
  const std::size_t kept = std::min(n, room());
  if (options_.order == TokenOptions::Order::kRank) {
    sort_entries(sorted);
    for (std::size_t i = 0; i < kept; ++i, ++written) {
      ids[written] = tokens[index_of_entry(sorted[i])];
      values[written] = value_of_entry(sorted[i]);
    }
    return written;
  }
  const bool is_cut = kept < n;
  const bool cuts_smallest = is_cut && options_.truncation == TokenOptions::Truncation::kSmallest;
  const bool has_bins = options_.order == TokenOptions::Order::kBins;
  if (has_bins || cuts_smallest) sort_entries(sorted);
  if (has_bins)
    to_quantile_bins(sorted, options_.n_bins, options_.spreads_ties ? &keys.ties : nullptr, raw);
  static thread_local std::vector<std::uint8_t> is_kept;
  if (cuts_smallest) {
    is_kept.assign(n, 0);
    for (std::size_t i = 0; i < kept; ++i) is_kept[index_of_entry(sorted[i])] = 1;
  } else if (is_cut) {
    keep_some(n, kept, keys.truncation, &is_kept);
  }
  for (std::size_t i = 0; i < n; ++i) {
    if (is_cut && is_kept[i] == 0) continue;
    ids[written] = tokens[i];
    values[written++] = raw[i];
  }
  return written;
}

}  // namespace cellfeed::transform
