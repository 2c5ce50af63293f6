#include "cellfeed/collection/gene_join.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "cellfeed/base/argument_text.h"
#include "cellfeed/base/error.h"
#include "cellfeed/matrix/gene_names.h"

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
        "the files share no gene, so {} leaves nothing; check that gene names are of one kind "
        "(symbols or Ensembl ids), or pass {}",
        argument("join", "inner"), argument("join", "outer"));
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

void require_once(const matrix::GeneAxis& wanted) {
  std::unordered_set<std::string_view> seen;
  for (const std::string& name : wanted.names)
    if (!seen.insert(name).second)
      throw_invalid("genes names '{}' twice; each gene is one column", name);
}

// Which genes of a fixed axis are nowhere, and which stores have none of them.
void find_absent(GeneJoin& joined, std::span<const matrix::GeneAxis* const> axes,
                 const std::vector<std::size_t>& first) {
  std::vector<bool> is_found(joined.genes.names.size(), false);
  std::vector<bool> has_any(axes.size(), false);
  for (std::size_t s = 0; s < axes.size(); ++s) {
    if (first[s] != s) {
      has_any[s] = has_any[first[s]];
    } else if (!joined.maps[s]) {
      is_found.assign(is_found.size(), true);
      has_any[s] = true;
    } else {
      for (const std::int32_t gene : *joined.maps[s])
        if (gene >= 0) is_found[static_cast<std::size_t>(gene)] = has_any[s] = true;
    }
    if (!has_any[s]) joined.stores_without.push_back(s);
  }
  for (std::size_t g = 0; g < is_found.size(); ++g)
    if (!is_found[g]) joined.absent.push_back(joined.genes.names[g]);
}

void require_some(const GeneJoin& joined, std::span<const matrix::GeneAxis* const> axes) {
  if (joined.absent.size() < joined.genes.names.size()) return;
  std::string why = matrix::explain_missing_genes(joined.absent, axes);
  if (why.empty() && !axes.empty() && !axes[0]->names.empty())
    why = "the data has genes such as " +
          matrix::some_names(
              std::span(axes[0]->names).first(std::min<std::size_t>(3, axes[0]->names.size())));
  throw Error(ErrorKind::kNoSuchKey,
              fmt::format("none of the {} genes asked for is in the data: "
                          "{}{}{}",
                          joined.absent.size(), matrix::some_names(joined.absent),
                          why.empty() ? "" : "; ", why));
}

double ensembl_share(const matrix::GeneAxis& axis) {
  const auto n = std::count_if(axis.names.begin(), axis.names.end(), matrix::is_ensembl_id);
  return axis.names.empty() ? 0 : static_cast<double>(n) / static_cast<double>(axis.names.size());
}

// Two stores whose genes all are in the union, none of them in both, named by ids in one and by
// symbols in the other: an outer join of the same genes under two names.
std::string describe_two_kinds(const GeneJoin& joined,
                               std::span<const matrix::GeneAxis* const> axes,
                               std::span<const std::string> paths) {
  std::optional<std::size_t> ids;
  std::optional<std::size_t> symbols;
  std::vector<bool> is_id(joined.genes.names.size(), false);
  for (std::size_t s = 0; s < axes.size(); ++s) {
    if (!joined.maps[s] || axes[s]->names.empty()) return "";
    if (s > 0 && joined.maps[s] == joined.maps[s - 1]) continue;
    const double share = ensembl_share(*axes[s]);
    if (share > 0.1 && share < 0.9) return "";
    for (const std::int32_t gene : *joined.maps[s]) {
      if (gene < 0) return "";
      if (share >= 0.9) is_id[static_cast<std::size_t>(gene)] = true;
    }
    auto& first = share >= 0.9 ? ids : symbols;
    if (!first) first = s;
  }
  if (!ids || !symbols) return "";
  for (std::size_t s = 0; s < axes.size(); ++s) {
    if (s > 0 && joined.maps[s] == joined.maps[s - 1]) continue;
    if (ensembl_share(*axes[s]) <= 0.1)
      for (const std::int32_t gene : *joined.maps[s])
        if (is_id[static_cast<std::size_t>(gene)]) return "";
  }
  return fmt::format(
      "the files share no gene by name: {} has Ensembl ids ('{}'), {} has symbols ('{}'), and none "
      "has a value for the genes of the other; name them alike by a column of var ({}), or write "
      "them with names of one kind",
      paths[*ids], axes[*ids]->names.front(), paths[*symbols], axes[*symbols]->names.front(),
      argument("var_key"));
}

// REQUIRES: the maps of all stores are there.
void note_repeated(GeneJoin& joined, std::span<const matrix::GeneAxis* const> axes) {
  for (std::size_t s = 0; s < axes.size(); ++s) {
    if (s > 0 && axes[s] == axes[s - 1]) continue;
    for (const auto& [column, name] : axes[s]->repeated) {
      const std::int64_t gene =
          joined.maps[s] ? (*joined.maps[s])[static_cast<std::size_t>(column)] : column;
      if (gene >= 0) joined.genes.repeated.emplace(gene, name);
    }
  }
}

}  // namespace

std::string describe_absent(const GeneJoin& joined, std::span<const matrix::GeneAxis* const> axes,
                            std::span<const std::string> paths) {
  std::string text;
  if (!joined.absent.empty()) {
    text = fmt::format("{} of the {} genes asked for are in no file: {}", joined.absent.size(),
                       joined.genes.names.size(), matrix::some_names(joined.absent));
    if (const auto why = matrix::explain_missing_genes(joined.absent, axes); !why.empty())
      text += "; " + why;
  }
  if (joined.stores_without.empty())
    return text.empty() ? describe_two_kinds(joined, axes, paths) : text;
  std::vector<std::string> without;
  for (const std::size_t s : joined.stores_without)
    if (without.empty() || without.back() != paths[s]) without.push_back(paths[s]);
  return fmt::format("{}{}{} of {} files have none of the genes asked for: {}", text,
                     text.empty() ? "" : "; ", joined.stores_without.size(), paths.size(),
                     matrix::some_names(without));
}

void require_unique(const matrix::GeneAxis& axis, const std::string& path,
                    std::string_view remedy) {
  std::unordered_map<std::string_view, std::size_t> seen;
  seen.reserve(axis.names.size());
  for (std::size_t i = 0; i < axis.names.size(); ++i) {
    const auto [it, is_new] = seen.emplace(axis.names[i], i);
    if (!is_new)
      throw_error(ErrorKind::kInvalidArgument, path,
                  "gene names repeat: '{}' is column {} and column {}; pass {}, or {}",
                  axis.names[i], it->second, i, argument("make_unique", "true"), remedy);
  }
}

void make_unique(matrix::GeneAxis& axis) {
  std::unordered_set<std::string> taken(axis.names.begin(), axis.names.end());
  std::unordered_map<std::string, int> next;
  std::unordered_map<std::string, std::int64_t> seen;
  for (std::size_t i = 0; i < axis.names.size(); ++i) {
    std::string& name = axis.names[i];
    const auto [first, is_new] = seen.try_emplace(name, static_cast<std::int64_t>(i));
    if (is_new) continue;
    const std::string original = name;
    axis.repeated.emplace(first->second, original);
    axis.repeated.emplace(static_cast<std::int64_t>(i), original);
    do {
      name = fmt::format("{}-{}", original, ++next[original]);
    } while (!taken.insert(name).second);
    seen.emplace(name, static_cast<std::int64_t>(i));
  }
}

Join join_from_name(std::string_view name, bool has_fixed_axis) {
  if (has_fixed_axis && !name.empty())
    throw_invalid("a list of genes fixes the gene axis: give either genes or join, not both: '{}'",
                  name);
  if (has_fixed_axis) return Join::kFixed;
  if (name.empty()) return Join::kNone;
  if (name == "inner") return Join::kInner;
  if (name == "outer") return Join::kOuter;
  throw_invalid("join must be \"inner\" or \"outer\", not '{}'", name);
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
    if (fixed.empty()) throw_invalid("genes is empty: name the genes to read, or leave it out");
    joined.genes.names = fixed;
    require_once(joined.genes);
  } else if (distinct.size() <= 1) {
    if (!axes.empty()) joined.genes.names = axes[0]->names;
    note_repeated(joined, axes);
    return joined;
  } else if (join == Join::kNone) {
    throw_error(ErrorKind::kInvalidArgument, paths[distinct[1]],
                "its genes differ from those of {} ({}); pass {} for the genes of every file or {} "
                "for those "
                "of any, or name them ({})",
                paths[0], first_difference(*axes[distinct[1]], *axes[0]), argument("join", "inner"),
                argument("join", "outer"),
                interface_in_use() == Interface::kProgram ? "data.vocab of a configuration"
                                                          : argument("genes"));
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
  note_repeated(joined, axes);
  if (join == Join::kFixed) {
    find_absent(joined, axes, first);
    require_some(joined, axes);
  }
  return joined;
}

GeneSelection select_genes(const matrix::GeneAxis& genes,
                           std::span<const std::shared_ptr<const std::vector<std::int32_t>>> maps,
                           std::span<const std::int64_t> columns) {
  if (columns.empty()) throw_invalid("no genes asked for");
  GeneSelection selected;
  std::vector<std::int32_t> place_of(genes.names.size(), -1);
  std::int32_t n_places = 0;
  for (const std::int64_t column : columns) {
    if (column < 0 || column >= genes.size())
      throw Error(ErrorKind::kOutOfRange,
                  fmt::format("gene {} is outside the {} genes", column, genes.size()));
    auto& place = place_of[static_cast<std::size_t>(column)];
    const std::string& name = genes.names[static_cast<std::size_t>(column)];
    if (place >= 0) throw_invalid("genes has '{}' twice; each gene is one column", name);
    place = n_places++;
  }
  selected.genes = genes.take(columns);
  using Map = std::shared_ptr<const std::vector<std::int32_t>>;
  std::unordered_map<const std::vector<std::int32_t>*, Map> done;
  for (const Map& joined : maps) {
    Map& map = done[joined.get()];
    if (!map && !joined) {
      map = std::make_shared<std::vector<std::int32_t>>(place_of);
    } else if (!map) {
      auto places = *joined;
      for (auto& place : places)
        if (place >= 0) place = place_of[static_cast<std::size_t>(place)];
      map = std::make_shared<std::vector<std::int32_t>>(std::move(places));
    }
    selected.maps.push_back(map);
  }
  return selected;
}

}  // namespace cellfeed::collection
