#include "cellfeed/transform/select_genes.h"

#include <algorithm>
#include <bit>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/matrix/gene_names.h"
#include "cellfeed/transform/simd/row_kernels.h"

namespace cellfeed::transform {
namespace {

// Puts entries in the order of their columns: marks the columns in a bitmap, and walks it.
// No columns are equal, so that each finds its value at its own place.
template <typename T>
void sort_entries(std::span<std::int32_t> columns, T* values) {
  static thread_local std::vector<std::uint64_t> marks;  // zero between calls
  static thread_local std::vector<T> value_at;
  const auto n_columns =
      static_cast<std::size_t>(*std::max_element(columns.begin(), columns.end())) + 1;
  const std::size_t n_words = (n_columns + 63) / 64;
  if (marks.size() < n_words) marks.resize(n_words);
  if (value_at.size() < n_columns) value_at.resize(n_columns);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    marks[columns[i] / 64] |= std::uint64_t{1} << (columns[i] % 64);
    value_at[columns[i]] = values[i];
  }
  std::size_t next = 0;
  for (std::size_t w = 0; w < n_words; ++w)
    for (std::uint64_t word = std::exchange(marks[w], 0); word != 0; word &= word - 1) {
      const std::size_t column = w * 64 + static_cast<std::size_t>(std::countr_zero(word));
      columns[next] = static_cast<std::int32_t>(column);
      values[next++] = value_at[column];
    }
}

}  // namespace

void remap_row(Row& row, std::span<const std::int32_t> map) {
  const std::size_t value_bytes = dtype_bytes(row.dtype);
  const std::size_t kept = keep_mapped(row.indices, row.values, value_bytes,
                                       static_cast<std::size_t>(row.size), map.data());
  row.size = static_cast<std::int32_t>(kept);
  const std::span columns(row.indices, kept);
  if (is_increasing(columns)) return;
  if (value_bytes == 4)
    sort_entries(columns, static_cast<std::uint32_t*>(row.values));
  else
    sort_entries(columns, static_cast<std::uint64_t*>(row.values));
}

SelectGenes::SelectGenes(std::vector<std::string> genes) : genes_(std::move(genes)) {
  if (genes_.empty()) throw_invalid("SelectGenes: no genes given");
  std::unordered_map<std::string_view, std::size_t> seen;
  for (std::size_t i = 0; i < genes_.size(); ++i) {
    const auto [it, is_new] = seen.emplace(genes_[i], i);
    if (!is_new)
      throw_invalid("SelectGenes: a gene is given twice: '{}' at {} and {}", genes_[i], it->second,
                    i);
  }
}

std::shared_ptr<const Transform> SelectGenes::bind(const matrix::GeneAxis& input) const {
  std::unordered_map<std::string_view, std::int32_t> wanted;
  for (std::size_t i = 0; i < genes_.size(); ++i)
    wanted.emplace(genes_[i], static_cast<std::int32_t>(i));
  auto bound = std::make_shared<SelectGenes>(*this);
  bound->map_.assign(input.names.size(), -1);
  std::size_t found = 0;
  for (std::size_t g = 0; g < input.names.size(); ++g)
    if (const auto it = wanted.find(input.names[g]); it != wanted.end()) {
      bound->map_[g] = it->second;
      wanted.erase(it);
      ++found;
    }
  if (found != genes_.size()) {
    std::vector<std::string> missing;
    for (const auto& gene : genes_)
      if (wanted.contains(gene)) missing.push_back(gene);
    const matrix::GeneAxis* axes[] = {&input};
    const std::string why = matrix::explain_missing_genes(missing, axes);
    throw Error(ErrorKind::kNoSuchKey,
                fmt::format("SelectGenes: {} of {} genes are not in the data, such as: {}{}{}",
                            missing.size(), genes_.size(), matrix::some_names(missing),
                            why.empty() ? "" : "; ", why));
  }
  return bound;
}

}  // namespace cellfeed::transform
