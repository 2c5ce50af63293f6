#include "cellfeed/cli/progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

#include "cellfeed/base/byte_size.h"
#include "cellfeed/base/number_text.h"

namespace cellfeed::cli {
namespace {

constexpr std::chrono::milliseconds kTerminalPeriod{100};
constexpr std::chrono::seconds kLogPeriod{5};

}  // namespace

ProgressLine::ProgressLine(bool quiet, std::string unit)
    : quiet_(quiet),
      is_terminal_(::isatty(STDERR_FILENO) == 1),
      unit_(std::move(unit)),
      last_(std::chrono::steady_clock::now()) {}

ProgressLine::~ProgressLine() {
  if (is_line_open_) std::fputc('\n', stderr);
}

std::string ProgressLine::text(const convert::Progress& p) const {
  const auto amount = [&](double value) {
    const auto whole = static_cast<std::int64_t>(value);
    return unit_ == "bytes" ? format_byte_size(whole) : grouped(whole);
  };
  std::string line = fmt::format(
      "{}: {} of {}{} ({:.0f} %)", p.phase, amount(static_cast<double>(p.done)),
      amount(static_cast<double>(p.total)), unit_ == "bytes" ? "" : " " + unit_,
      p.total > 0 ? std::floor(100 * static_cast<double>(p.done) / static_cast<double>(p.total))
                  : 100);
  if (p.rate > 0) {
    line += fmt::format(", {}{}/s", amount(p.rate), unit_ == "bytes" ? "" : " " + unit_);
    if (p.done < p.total)
      line +=
          fmt::format(", {} left", duration_text(static_cast<double>(p.total - p.done) / p.rate));
  }
  return line;
}

void ProgressLine::show(const convert::Progress& progress) {
  if (quiet_) return;
  const auto now = std::chrono::steady_clock::now();
  const bool is_new_phase = phase_ != progress.phase;
  const bool is_last = progress.done >= progress.total;
  const bool is_due = is_terminal_ ? now - last_ >= kTerminalPeriod : now - last_ >= kLogPeriod;
  if (!is_due && !is_last && !(is_terminal_ && is_new_phase)) return;
  if (is_terminal_ && is_new_phase && is_line_open_) std::fputc('\n', stderr);
  phase_ = progress.phase;
  last_ = now;
  const std::string line = text(progress);
  if (is_terminal_)
    std::fprintf(stderr, "\r%s\033[K", line.c_str());
  else
    std::fprintf(stderr, "%s\n", line.c_str());
  std::fflush(stderr);
  is_line_open_ = is_terminal_;
}

}  // namespace cellfeed::cli
