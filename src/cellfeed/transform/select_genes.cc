#include "cellfeed/transform/select_genes.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "cellfeed/base/error.h"

namespace cellfeed::transform {
namespace {

template <typename T>
void remap_values(Row& row, std::span<const std::int32_t> map) {
  auto* values = static_cast<T*>(row.values);
  std::int32_t kept = 0;
  std::int32_t last = -1;
  bool is_sorted = true;
  for (std::int32_t i = 0; i < row.size; ++i) {
    const std::int32_t to = map[row.indices[i]];
    if (to < 0) continue;
    is_sorted &= to > last;
    last = to;
    row.indices[kept] = to;
    values[kept++] = values[i];
  }
  row.size = kept;
  if (is_sorted) return;
  static thread_local std::vector<std::pair<std::int32_t, T>> entries;
  entries.clear();
  for (std::int32_t i = 0; i < kept; ++i) entries.emplace_back(row.indices[i], values[i]);
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  for (std::int32_t i = 0; i < kept; ++i) {
    row.indices[i] = entries[i].first;
    values[i] = entries[i].second;
  }
}

}  // namespace

void remap_row(Row& row, std::span<const std::int32_t> map) {
  switch (row.dtype) {
    case DType::kF32: return remap_values<float>(row, map);
    case DType::kF64: return remap_values<double>(row, map);
    case DType::kI32: return remap_values<std::int32_t>(row, map);
    case DType::kI64: return remap_values<std::int64_t>(row, map);
    default: throw Error(ErrorKind::kInternal, "a row of a dtype that batches do not hold");
  }
}

SelectGenes::SelectGenes(std::vector<std::string> genes) : genes_(std::move(genes)) {
  if (genes_.empty()) throw_invalid("SelectGenes: no genes given");
  std::unordered_map<std::string_view, std::size_t> seen;
  for (std::size_t i = 0; i < genes_.size(); ++i) {
    const auto [it, is_new] = seen.emplace(genes_[i], i);
    if (!is_new)
      throw_invalid("SelectGenes: a gene is given twice: '{}' at {} and {}", genes_[i], it->second, i);
  }
}

std::shared_ptr<const Transform> SelectGenes::bind(const matrix::GeneAxis& input) const {
  std::unordered_map<std::string_view, std::int32_t> wanted;
  for (std::size_t i = 0; i < genes_.size(); ++i) wanted.emplace(genes_[i], static_cast<std::int32_t>(i));
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
    std::vector<std::string_view> missing;
    for (const auto& gene : genes_)
      if (wanted.contains(gene) && missing.size() < 5) missing.push_back(gene);
    throw Error(ErrorKind::kNoSuchKey,
                fmt::format("SelectGenes: {} of {} genes are not in the data, such as: {}",
                            wanted.size(), genes_.size(), fmt::join(missing, ", ")));
  }
  return bound;
}

}  // namespace cellfeed::transform
