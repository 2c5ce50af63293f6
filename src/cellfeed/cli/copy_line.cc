#include "cellfeed/cli/copy_line.h"

namespace cellfeed::cli {

CopyLine::CopyLine(bool quiet) : line_(quiet, "bytes") {
  cloud::observe_copies([this](const std::vector<cloud::CopyProgress>& copies) {
    convert::Progress all{.phase = "copying"};
    for (const cloud::CopyProgress& copy : copies) {
      all.done += copy.done;
      all.total += copy.total;
      all.rate += copy.rate;
    }
    line_.show(all);
  });
}

CopyLine::~CopyLine() { cloud::observe_copies({}); }

}  // namespace cellfeed::cli
