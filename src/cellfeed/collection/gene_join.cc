#include "cellfeed/collection/gene_join.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "cellfeed/base/error.h"

namespace cellfeed::collection {
namespace {

using Position = std::unordered_map<std::string_view, std::int32_t>;

Position positions_of(const matrix::GeneAxis& axis) {
  Position positions;
  positions.reserve(axis.names.size());
  for (std::size_t i = 0; i < axis.names.size(); ++i)
    positions.emplace(axis.names[i], static_cast<std::int32_t>(i));
  return positions;
}

std::string first_difference(const matrix::GeneAxis& a, const matrix::GeneAxis& b) {
  if (a.size() != b.size()) return fmt::format("{} genes against {}", a.size(), b.size());
  for (std::size_t i = 0; i < a.names.size(); ++i)
    if (a.names[i] != b.names[i])
      return fmt::format("gene {} is '{}' against '{}'", i, a.names[i], b.names[i]);
  return "none";
}

// Store number of the first store with the same axis as each store.
std::vector<std::size_t> group_equal_axes(std::span<const matrix::GeneAxis* const> axes) {
  std::unordered_map<std::size_t, std::vector<std::size_t>> by_hash;
  std::vector<std::size_t> first(axes.size());
  for (std::size_t s = 0; s < axes.size(); ++s) {
    std::size_t hash = axes[s]->names.size();
    for (const auto& name : axes[s]->names)
      hash = hash * 1099511628211u + std::hash<std::string>{}(name);
    auto& candidates = by_hash[hash];
    const auto same = std::find_if(candidates.begin(), candidates.end(), [&](std::size_t other) {
      return axes[other] == axes[s] || axes[other]->names == axes[s]->names;
    });
    first[s] = same == candidates.end() ? s : *same;
    if (same == candidates.end()) candidates.push_back(s);
  }
  return first;
}

std::vector<std::string> intersect(std::span<const matrix::GeneAxis* const> axes,
                                   const std::vector<std::size_t>& distinct) {
  std::vector<std::string> names = axes[0]->names;
  for (std::size_t s : distinct) {
    if (s == 0) continue;
    const std::unordered_set<std::string_view> here(axes[s]->names.begin(), axes[s]->names.end());
    std::erase_if(names, [&](const std::string& name) { return !here.contains(name); });
  }
  if (names.empty())
    throw_invalid(
        "the files share no gene, so join=\"inner\" leaves nothing; check that gene names "
        "are of one kind (symbols or Ensembl ids), or pass join=\"outer\"");
  return names;
}

std::vector<std::string> unite(std::span<const matrix::GeneAxis* const> axes,
                               const std::vector<std::size_t>& distinct) {
  std::vector<std::string> names;
  for (std::size_t s : distinct)
    names.insert(names.end(), axes[s]->names.begin(), axes[s]->names.end());
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace

void require_unique(const matrix::GeneAxis& axis, const std::string& path) {
  std::unordered_map<std::string_view, std::size_t> seen;
  seen.reserve(axis.names.size());
  for (std::size_t i = 0; i < axis.names.size(); ++i) {
    const auto [it, is_new] = seen.emplace(axis.names[i], i);
    if (!is_new)
      throw_error(
          ErrorKind::kInvalidArgument, path,
          "gene names repeat: '{}' is column {} and column {}; pass make_unique=True, or rename "
          "them in the file (adata.var_names_make_unique())",
          axis.names[i], it->second, i);
  }
}

void make_unique(matrix::GeneAxis& axis) {
  std::unordered_set<std::string> taken(axis.names.begin(), axis.names.end());
  std::unordered_map<std::string, int> next;
  std::unordered_set<std::string> seen;
  for (auto& name : axis.names) {
    if (seen.insert(name).second) continue;
    const std::string original = name;
    do {
      name = fmt::format("{}-{}", original, ++next[original]);
    } while (!taken.insert(name).second);
    seen.insert(name);
  }
}

GeneJoin join_genes(std::span<const matrix::GeneAxis* const> axes,
                    std::span<const std::string> paths, Join join,
                    const std::vector<std::string>& fixed) {
  const std::vector<std::size_t> first = group_equal_axes(axes);
  std::vector<std::size_t> distinct;
  for (std::size_t s = 0; s < axes.size(); ++s)
    if (first[s] == s) distinct.push_back(s);

  GeneJoin joined;
  joined.maps.resize(axes.size());
  if (join == Join::kFixed) {
    joined.genes.names = fixed;
    require_unique(joined.genes, "the gene vocabulary");
  } else if (distinct.size() <= 1) {
    if (!axes.empty()) joined.genes = *axes[0];
    return joined;
  } else if (join == Join::kNone) {
    throw_error(
        ErrorKind::kInvalidArgument, paths[distinct[1]],
        "its genes differ from those of {} ({}); pass join=\"inner\" for the genes of every file "
        "or join=\"outer\" for those of any",
        paths[0], first_difference(*axes[distinct[1]], *axes[0]));
  } else {
    joined.genes.names = join == Join::kInner ? intersect(axes, distinct) : unite(axes, distinct);
  }

  const Position target = positions_of(joined.genes);
  for (std::size_t s : distinct) {
    if (axes[s]->names == joined.genes.names) continue;
    auto map = std::make_shared<std::vector<std::int32_t>>(axes[s]->names.size(), -1);
    for (std::size_t g = 0; g < map->size(); ++g)
      if (const auto it = target.find(axes[s]->names[g]); it != target.end())
        (*map)[g] = it->second;
    joined.maps[s] = std::move(map);
  }
  for (std::size_t s = 0; s < axes.size(); ++s) joined.maps[s] = joined.maps[first[s]];
  return joined;
}

}  // namespace cellfeed::collection
