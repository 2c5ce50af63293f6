// ProgressLine: progress on stderr: one line that is written over on a terminal, a plain line every
// few seconds in a log. Not thread-safe.
#pragma once

#include <chrono>
#include <string>

#include "cellfeed/convert/progress.h"

namespace cellfeed::cli {

class ProgressLine {
 public:
  // unit: "cells"; bytes are printed as sizes.
  ProgressLine(bool quiet, std::string unit);
  // Ends the line, so that what follows starts on one of its own.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(const convert::Progress& progress);
  convert::ProgressCallback callback() {
    return [this](const convert::Progress& progress) { show(progress); };
  }

 private:
  std::string text(const convert::Progress& progress) const;

  bool quiet_;
  bool is_terminal_;
  bool is_line_open_ = false;
  std::string unit_;
  std::string phase_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace cellfeed::cli
