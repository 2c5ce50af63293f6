#include "cellfeed/cli/rate_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace cellfeed::cli {
namespace {

constexpr double kWidth = 720, kHeight = 440, kLeft = 90, kRight = 30, kTop = 40, kBottom = 60;

struct Axis {
  double low, high, from, to;
  double place(double value) const {
    return from + (value - low) / std::max(high - low, 1e-9) * (to - from);
  }
};

double across(const loader::TuningResult& result, const loader::TuningPoint& point) {
  if (result.has_labels) return point.entropy_bits;
  return point.block_size == 0 ? 12.0 : std::log2(static_cast<double>(point.block_size));
}

std::string text_at(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     text);
}

}  // namespace

std::string draw_rate_plot(const loader::TuningResult& result) {
  Axis x{1e9, -1e9, kLeft, kWidth - kRight};
  Axis y{1e9, -1e9, kHeight - kBottom, kTop};
  for (const auto& point : result.points) {
    x.low = std::min(x.low, across(result, point));
    x.high = std::max(x.high, across(result, point));
    y.low = std::min(y.low, std::floor(std::log10(std::max(point.cells_per_second, 1.0))));
    y.high = std::max(y.high, std::ceil(std::log10(std::max(point.cells_per_second, 1.0))));
  }
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "font-family=\"sans-serif\" "
      "font-size=\"12\">\n<rect width=\"{0:.0f}\" height=\"{1:.0f}\" fill=\"white\"/>\n",
      kWidth, kHeight);
  for (double decade = y.low; decade <= y.high; ++decade) {
    svg += fmt::format(
        "<line x1=\"{:.0f}\" x2=\"{:.0f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n", kLeft,
        kWidth - kRight, y.place(decade), y.place(decade));
    svg += text_at(kLeft - 8, y.place(decade) + 4, "end", fmt::format("1e{:.0f}", decade));
  }
  for (int tick = 0; tick <= 4; ++tick) {
    const double value = x.low + (x.high - x.low) * tick / 4;
    svg += text_at(x.place(value), kHeight - kBottom + 20, "middle", fmt::format("{:.2f}", value));
  }
  svg += text_at(kWidth / 2, kHeight - 15, "middle",
                 result.has_labels ? "label entropy of a batch, bits" : "log2 of the block size");
  svg += text_at(kLeft, kTop - 15, "middle", "cells/s");
  for (std::size_t i = 0; i < result.points.size(); ++i) {
    const auto& point = result.points[i];
    const double px = x.place(across(result, point));
    const double py = y.place(std::log10(std::max(point.cells_per_second, 1.0)));
    svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\" fill=\"{}\"/>\n", px, py,
                       i == result.best ? "#d62728" : "#1f77b4");
    const std::string block =
        point.block_size == 0 ? "stream" : fmt::format("block {}", point.block_size);
    svg += text_at(px, py - 9, "middle", fmt::format("{}, fetch {}", block, point.fetch_factor));
  }
  return svg + "</svg>\n";
}

}  // namespace cellfeed::cli
