#include "cellfeed/base/nearest_name.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "cellfeed/base/ascii_case.h"

namespace cellfeed {
namespace {

constexpr std::size_t kNamesShown = 20;
// Names of files and genes come from disk: the distance costs the product of the lengths.
constexpr std::size_t kLongestName = 200;

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Rows of the table of prefixes: two back, one back, now (optimal string alignment).
  std::vector<std::size_t> older(b.size() + 1), old(b.size() + 1), now(b.size() + 1);
  std::iota(old.begin(), old.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t differs = lower(a[i - 1]) != lower(b[j - 1]);
      now[j] = std::min({old[j] + 1, now[j - 1] + 1, old[j - 1] + differs});
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
          lower(a[i - 2]) == lower(b[j - 1]))
        now[j] = std::min(now[j], older[j - 2] + 1);
    }
    std::swap(older, old);
    std::swap(old, now);
  }
  return old[b.size()];
}

std::string nearest_name(std::string_view name, std::span<const std::string> known) {
  if (name.empty() || name.size() > kLongestName) return {};
  // A third of the letters may be wrong.
  const std::size_t allowed = std::max<std::size_t>(1, name.size() / 3);
  std::size_t best = allowed + 1;
  std::string nearest;
  for (const std::string& candidate : known) {
    const std::size_t longer = std::max(candidate.size(), name.size());
    const std::size_t shorter = std::min(candidate.size(), name.size());
    std::size_t distance = longer - shorter <= allowed && longer <= kLongestName
                               ? edit_distance(name, candidate)
                               : allowed + 1;
    // The start of a name is worth a guess, but no better one than a mistyped letter or two.
    if (distance > allowed && name.size() >= 3 && candidate.size() > name.size() &&
        edit_distance(name, candidate.substr(0, name.size())) <= (name.size() > 3 ? 1u : 0u))
      distance = allowed;
    // Of the other at least a letter.
    if (distance < std::min(best, longer)) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string suggestion(std::string_view name, std::span<const std::string> known) {
  if (known.empty()) return "; there are none";
  const std::string nearest = nearest_name(name, known);
  const auto shown = known.first(std::min(known.size(), kNamesShown));
  std::string text = nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
  text += fmt::format("{} there are: {}", nearest.empty() ? ";" : "", fmt::join(shown, ", "));
  if (known.size() > kNamesShown) text += fmt::format(" and {} more", known.size() - kNamesShown);
  return text;
}

}  // namespace cellfeed
