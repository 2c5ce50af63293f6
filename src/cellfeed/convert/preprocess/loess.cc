#include "cellfeed/convert/preprocess/loess.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <numeric>
#include <utility>

namespace cellfeed::convert {
namespace {

// A cell of the tree is split while it holds more than this share of a neighbourhood.
constexpr double kCellShare = 0.2;
// How far the outermost vertices lie beyond the points, as a share of their range.
constexpr double kMargin = 0.005;
constexpr std::size_t kMinNeighbours = 4;
constexpr std::size_t kMaxTreeCells = 200;  // where there are fewer points than these

using Columns = std::array<double, 3>;

struct Points {
  std::vector<double> x, y;  // ascending in x
};

struct Vertex {
  double x = 0, value = 0, slope = 0;
};

Points sorted_points(std::span<const double> x, std::span<const double> y) {
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return x[i]; });
  Points points;
  for (const std::size_t i : order) {
    points.x.push_back(x[i]);
    points.y.push_back(y[i]);
  }
  return points;
}

// The last place of the left half of [begin, end): the middle, or the nearest place after which x
// changes, so that equal x stay together.
std::int64_t split_place(const std::vector<double>& x, std::int64_t begin, std::int64_t end) {
  const std::int64_t middle = (begin + end - 1) / 2;
  std::int64_t offset = 0;
  while (middle + offset < end - 1 && middle + offset >= begin) {
    if (x[middle + offset] != x[middle + offset + 1]) return middle + offset;
    offset = -offset;
    if (offset >= 0) ++offset;
  }
  return middle;
}

// Ascending.
std::vector<double> tree_vertices(const std::vector<double>& x, double span) {
  struct Cell {
    std::int64_t begin, end;
    double low, high;
  };
  const auto n = static_cast<double>(x.size());
  const auto largest_leaf = static_cast<std::int64_t>(std::floor(n * span * kCellShare));
  const std::size_t max_cells = std::max(kMaxTreeCells, x.size());
  const double size = std::max(std::abs(x.front()), std::abs(x.back()));
  const double margin = kMargin * std::max(x.back() - x.front(), 1e-10 * size + 1e-30);
  std::vector<double> vertices = {x.front() - margin, x.back() + margin};
  std::deque<Cell> cells = {{0, std::ssize(x), vertices[0], vertices[1]}};
  std::size_t n_cells = 1;
  for (; !cells.empty(); cells.pop_front()) {
    const Cell cell = cells.front();
    if (cell.end - cell.begin <= largest_leaf || max_cells < n_cells + 2) continue;
    const std::int64_t place = split_place(x, cell.begin, cell.end);
    const double at = x[place];
    if (at == cell.low || at == cell.high) continue;
    vertices.push_back(at);
    n_cells += 2;
    cells.push_back({cell.begin, place + 1, cell.low, at});
    cells.push_back({place + 1, cell.end, at, cell.high});
  }
  std::ranges::sort(vertices);
  vertices.erase(std::ranges::unique(vertices).begin(), vertices.end());
  return vertices;
}

// The first of the n points nearest to `at`.
std::size_t first_neighbour(const std::vector<double>& x, double at, std::size_t n) {
  std::size_t first = 0;
  while (first + n < x.size() && x[first + n] - at < at - x[first]) ++first;
  return first;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Minimises |a beta - y| by one-sided Jacobi rotations, whose columns are scaled to length one.
// Nothing where the columns depend on one another.
std::optional<Columns> least_squares(std::array<std::vector<double>, 3> a,
                                     const std::vector<double>& y) {
  Columns lengths{};
  for (std::size_t j = 0; j < 3; ++j) {
    lengths[j] = std::sqrt(dot(a[j], a[j]));
    if (lengths[j] == 0) return std::nullopt;
    for (double& value : a[j]) value /= lengths[j];
  }
  std::array<Columns, 3> v = {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};  // by columns
  const auto rotate = [](auto& one, auto& other, double c, double s) {
    for (std::size_t i = 0; i < one.size(); ++i) {
      const double p = one[i], q = other[i];
      one[i] = c * p - s * q;
      other[i] = s * p + c * q;
    }
  };
  constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
  for (int sweep = 0; sweep < 30; ++sweep) {
    bool is_done = true;
    for (const auto& [p, q] : {std::pair{0, 1}, std::pair{0, 2}, std::pair{1, 2}}) {
      const double pp = dot(a[p], a[p]), qq = dot(a[q], a[q]), pq = dot(a[p], a[q]);
      if (std::abs(pq) <= kEpsilon * std::sqrt(pp * qq)) continue;
      is_done = false;
      const double zeta = (qq - pp) / (2 * pq);
      const double t = std::copysign(1.0, zeta) / (std::abs(zeta) + std::sqrt(1 + zeta * zeta));
      const double c = 1 / std::sqrt(1 + t * t);
      rotate(a[p], a[q], c, c * t);
      rotate(v[p], v[q], c, c * t);
    }
    if (is_done) break;
  }
  Columns sigma{};
  for (std::size_t j = 0; j < 3; ++j) sigma[j] = std::sqrt(dot(a[j], a[j]));
  const auto [smallest, largest] = std::ranges::minmax(sigma);
  if (smallest <= largest * 100 * kEpsilon) return std::nullopt;
  Columns beta{};
  for (std::size_t j = 0; j < 3; ++j) {
    const double share = dot(a[j], y) / (sigma[j] * sigma[j]);
    for (std::size_t i = 0; i < 3; ++i) beta[i] += v[j][i] * share / lengths[i];
  }
  return beta;
}

std::optional<Vertex> fit_at(const Points& points, double at, std::size_t n) {
  const std::size_t first = first_neighbour(points.x, at, n);
  const double radius = std::max(at - points.x[first], points.x[first + n - 1] - at);
  if (!(radius > 0)) return std::nullopt;
  std::array<std::vector<double>, 3> columns;
  std::vector<double> y;
  for (std::size_t i = first; i < first + n; ++i) {
    const double distance = points.x[i] - at;
    const double near = 1 - std::pow(std::abs(distance) / radius, 3);
    const double weight = std::sqrt(near * near * near);
    columns[0].push_back(weight);
    columns[1].push_back(weight * distance);
    columns[2].push_back(weight * distance * distance);
    y.push_back(weight * points.y[i]);
  }
  const auto beta = least_squares(std::move(columns), y);
  if (!beta) return std::nullopt;
  return Vertex{at, (*beta)[0], (*beta)[1]};
}

// Hermite's cubic between two vertices.
double between(const Vertex& a, const Vertex& b, double x) {
  const double width = b.x - a.x, h = (x - a.x) / width, rest = 1 - h;
  return rest * rest * (1 + 2 * h) * a.value + h * h * (3 - 2 * h) * b.value +
         (h * rest * rest * a.slope + h * h * (h - 1) * b.slope) * width;
}

}  // namespace

std::optional<std::vector<double>> loess(std::span<const double> x, std::span<const double> y,
                                         double span) {
  const auto share = static_cast<std::size_t>(static_cast<double>(x.size()) * span + 1e-5);
  const std::size_t n_neighbours = std::min(x.size(), share);
  if (n_neighbours < kMinNeighbours) return std::nullopt;
  const Points points = sorted_points(x, y);
  std::vector<Vertex> vertices;
  for (const double at : tree_vertices(points.x, span)) {
    const auto vertex = fit_at(points, at, n_neighbours);
    if (!vertex) return std::nullopt;
    vertices.push_back(*vertex);
  }
  std::vector<double> curve;
  for (const double value : x) {
    const auto next = std::ranges::lower_bound(vertices, value, {}, &Vertex::x);
    curve.push_back(between(*std::prev(next), *next, value));
  }
  return curve;
}

}  // namespace cellfeed::convert
