// loess: a smooth curve through points of one variable, by local quadratic regression (Cleveland
// and Devlin, 1988). Pure.
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace cellfeed::convert {

// The curve at each x. As Cleveland and Grosse's dloess with its defaults for degree 2, which R's
// loess and scikit-misc are: each fit is over the nearest share `span` of the points, weighted by
// the tricube of their distance; fits are made at the vertices of a tree over x, and joined by
// cubics. Nothing where there are too few points, or too few different x near one another for a
// quadratic curve. REQUIRES: x and y are finite and of one size.
std::optional<std::vector<double>> loess(std::span<const double> x, std::span<const double> y,
                                         double span);

}  // namespace cellfeed::convert
