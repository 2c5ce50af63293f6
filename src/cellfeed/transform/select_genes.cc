#include "cellfeed/transform/select_genes.h"

#include <string_view>
#include <unordered_map>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/matrix/gene_names.h"
#include "cellfeed/transform/simd/reorder_row.h"
#include "cellfeed/transform/simd/row_kernels.h"

namespace cellfeed::transform {

namespace {

template <typename Place>
void move_columns(std::int32_t* indices, std::size_t n, const Place* places) {
  for (std::size_t i = 0; i < n; ++i) indices[i] = places[indices[i]];
}

}  // namespace

void remap_row(Row& row, const ColumnMap& map, EntryOrder order, RowRoom room) {
  const std::size_t value_bytes = dtype_bytes(row.dtype);
  const MapTraits& traits = map.traits;
  const std::int32_t* places = map.places.data();
  const std::uint16_t* narrow = map.narrow.empty() ? nullptr : map.narrow.data();
  const bool is_ordered = traits.keeps_order || order == EntryOrder::kAny;
  auto size = static_cast<std::size_t>(row.size);
  if (is_ordered && traits.keeps_all) {
    if (narrow != nullptr)
      move_columns(row.indices, size, narrow);
    else
      move_columns(row.indices, size, places);
    return;
  }
  // What drops much does so first: vectors pass over it faster than the reordering does.
  if (is_ordered || !traits.keeps_most) {
    if (room.indices == nullptr) room = {row.indices, row.values};
    size = keep_mapped(row.indices, row.values, value_bytes, size, {places, map.marks.data()},
                       room.indices, room.values);
    row.indices = room.indices;
    row.values = room.values;
    places = nullptr;
  }
  const auto n_cols = static_cast<std::size_t>(traits.n_cols);
  if (!is_ordered && narrow != nullptr)
    size = reorder_row(row.indices, row.values, value_bytes, size, narrow, n_cols);
  else if (!is_ordered)
    size = reorder_row(row.indices, row.values, value_bytes, size, places, n_cols);
  row.size = static_cast<std::int32_t>(size);
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
  bound->traits_ = find_traits(bound->map_);
  return bound;
}

}  // namespace cellfeed::transform
