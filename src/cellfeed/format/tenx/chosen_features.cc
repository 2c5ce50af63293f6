#include "cellfeed/format/tenx/chosen_features.h"

#include <arrow/api.h>

#include <algorithm>
#include <map>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/format/column_values.h"

namespace cellfeed::format::tenx {
namespace {

// "Antibody Capture (17), Gene Expression (33538)"
std::string tally(std::span<const std::string> texts) {
  std::map<std::string, std::int64_t> counts;
  for (const std::string& text : texts) ++counts[text];
  std::string list;
  for (const auto& [text, n] : counts)
    list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", text.empty() ? "''" : text, n);
  return list;
}

}  // namespace

ChosenFeatures::ChosenFeatures(std::string path, std::int64_t n_features)
    : path_(std::move(path)),
      is_kept_(static_cast<std::size_t>(n_features), true),
      n_kept_(n_features) {}

void ChosenFeatures::keep_genome(std::span<const std::string> genomes, const std::string& genome) {
  if (std::find(genomes.begin(), genomes.end(), genome) == genomes.end())
    throw_error(ErrorKind::kInvalidArgument, path_, "no genome '{}'; there are: {}", genome,
                tally(genomes));
  for (std::size_t i = 0; i < genomes.size(); ++i)
    if (genomes[i] != genome) is_kept_[i] = false;
  number_columns();
}

void ChosenFeatures::keep_type(std::span<const std::string> types, const std::string& wanted) {
  if (types.empty() || wanted == kAllTypes) return;
  const std::string& type = wanted.empty() ? kGeneExpression : wanted;
  std::vector<std::string> candidates, others;
  for (std::size_t i = 0; i < types.size(); ++i)
    if (is_kept_[i]) (types[i] == type ? candidates : others).push_back(types[i]);
  if (candidates.empty())
    throw_error(ErrorKind::kInvalidArgument, path_,
                "no features of type '{}'; choose with feature_type, or \"{}\" for all: {}", type,
                kAllTypes, tally(others));
  for (std::size_t i = 0; i < types.size(); ++i)
    if (types[i] != type) is_kept_[i] = false;
  if (wanted.empty() && !others.empty())
    left_out_ = fmt::format(
        "features that are not gene expression are left out: {}; feature_type "
        "\"{}\" keeps them",
        tally(others), kAllTypes);
  number_columns();
}

void ChosenFeatures::require_gene_expression(const std::string& wanted,
                                             const std::string& holder) const {
  if (!wanted.empty() && wanted != kAllTypes && wanted != kGeneExpression)
    throw_error(ErrorKind::kInvalidArgument, path_,
                "no feature type '{}': {} hold gene expression only", wanted, holder);
}

void ChosenFeatures::number_columns() {
  n_kept_ = std::count(is_kept_.begin(), is_kept_.end(), true);
  columns_.clear();
  if (n_kept_ == std::ssize(is_kept_)) return;
  columns_.assign(is_kept_.size(), -1);
  std::int32_t column = 0;
  for (std::size_t i = 0; i < is_kept_.size(); ++i)
    if (is_kept_[i]) columns_[i] = column++;
}

std::vector<std::string> ChosenFeatures::kept(std::vector<std::string> all) const {
  std::size_t n = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!is_kept_[i]) continue;
    if (n != i) all[n] = std::move(all[i]);
    ++n;
  }
  all.resize(n);
  return all;
}

std::shared_ptr<arrow::Array> ChosenFeatures::kept(const std::shared_ptr<arrow::Array>& all) const {
  if (columns_.empty()) return all;
  arrow::ArrayVector runs{all->Slice(0, 0)};
  const auto n = static_cast<std::int64_t>(is_kept_.size());
  for (std::int64_t begin = 0; begin < n;) {
    std::int64_t end = begin + 1;
    while (end < n && is_kept_[end] == is_kept_[begin]) ++end;
    if (is_kept_[begin]) runs.push_back(all->Slice(begin, end - begin));
    begin = end;
  }
  const auto kept = arrow::Concatenate(runs);
  check_arrow(kept.status());
  return *kept;
}

}  // namespace cellfeed::format::tenx
