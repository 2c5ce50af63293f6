#include "cellfeed/matrix/gene_names.h"

#include <algorithm>
#include <unordered_map>

#include "cellfeed/base/ascii_case.h"
#include "cellfeed/base/error.h"

namespace cellfeed::matrix {
namespace {

constexpr std::size_t kShown = 5;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }

// Without ".16" at the end of an id.
std::string_view without_version(std::string_view name) {
  const auto dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0 || dot + 1 == name.size()) return name;
  const auto version = name.substr(dot + 1);
  return std::all_of(version.begin(), version.end(), is_digit) ? name.substr(0, dot) : name;
}

// Names of the data by what `key` makes of them; the first of equal ones.
template <typename Key>
std::string first_match(std::span<const std::string> missing, std::span<const GeneAxis* const> axes,
                        const Key& key, const char* difference) {
  std::unordered_map<std::string, const std::string*> wanted;
  for (const std::string& name : missing) wanted.emplace(key(name), &name);
  std::unordered_map<const std::string*, const std::string*> found;
  const GeneAxis* last = nullptr;
  for (const GeneAxis* axis : axes) {
    if (axis == last || (last != nullptr && axis->names == last->names)) continue;
    last = axis;
    for (const std::string& name : axis->names)
      if (const auto it = wanted.find(key(name)); it != wanted.end())
        found.emplace(it->second, &name);
  }
  for (const std::string& name : missing)
    if (const auto it = found.find(&name); it != found.end())
      return fmt::format("{} of them {}: '{}' is '{}' in the data", found.size(), difference, name,
                         *it->second);
  return "";
}

double ensembl_share(std::span<const std::string> names) {
  if (names.empty()) return 0;
  const auto n = std::count_if(names.begin(), names.end(), is_ensembl_id);
  return static_cast<double>(n) / static_cast<double>(names.size());
}

}  // namespace

bool is_ensembl_id(std::string_view name) {
  name = without_version(name);
  if (name.starts_with("FBgn") || name.starts_with("WBGene"))
    return is_digit(name.back()) && name.size() > 8;
  if (!name.starts_with("ENS")) return false;
  std::size_t at = 3;
  while (at < name.size() && is_upper(name[at])) ++at;
  // ENS, a species of up to six letters, G for a gene, T for a transcript, and a number.
  const char kind = name[at - 1];
  return (kind == 'G' || kind == 'T') && name.size() >= at + 6 &&
         std::all_of(name.begin() + static_cast<std::ptrdiff_t>(at), name.end(), is_digit);
}

std::string explain_missing_genes(std::span<const std::string> missing,
                                  std::span<const GeneAxis* const> axes) {
  const double asked = ensembl_share(missing);
  double stored = 0;
  const GeneAxis* example = nullptr;
  for (const GeneAxis* axis : axes)
    if (!axis->names.empty()) {
      example = axis;
      stored = std::max(stored, ensembl_share(axis->names));
    }
  if (example == nullptr) return "";
  if (asked > 0.5 && stored < 0.1)
    return fmt::format(
        "they are Ensembl ids ('{}'), while the data has symbols ('{}'): ask for symbols, or write "
        "the file with ids as var_names",
        missing.front(), example->names.front());
  if (asked < 0.1 && stored > 0.5)
    return fmt::format(
        "they look like symbols ('{}'), while the data has Ensembl ids ('{}'): ask for ids, or "
        "write the file with symbols as var_names",
        missing.front(), example->names.front());
  const auto in_lower = [](std::string_view name) { return lower(name); };
  if (std::string text = first_match(missing, axes, in_lower, "differ in case only"); !text.empty())
    return text;
  return first_match(
      missing, axes, [](std::string_view name) { return std::string(without_version(name)); },
      "differ in the version after the dot only");
}

std::string some_names(std::span<const std::string> names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i)
    text += fmt::format("{}'{}'", i == 0 ? "" : ", ", names[i]);
  if (names.size() > kShown) text += fmt::format(", ... ({} in all)", names.size());
  return text;
}

}  // namespace cellfeed::matrix
