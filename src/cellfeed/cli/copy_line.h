// CopyLine: shows on stderr how far the copies of objects are that opening makes (cache_dir). One
// at a time.
#pragma once

#include <vector>

#include "cellfeed/cli/progress_line.h"
#include "cellfeed/cloud/cache/copies_under_way.h"

namespace cellfeed::cli {

class CopyLine {
 public:
  explicit CopyLine(bool quiet);
  ~CopyLine();
  CopyLine(const CopyLine&) = delete;
  CopyLine& operator=(const CopyLine&) = delete;

 private:
  ProgressLine line_;
};

}  // namespace cellfeed::cli
