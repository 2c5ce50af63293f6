// OwnScratch: the system's folder for temporary files is one of this test's own while it lives.
// What is kept there goes by the path of an output, which tests that run side by side may share.
#pragma once

#include <stdlib.h>

#include <optional>
#include <string>

#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::testing {

class OwnScratch {
 public:
  OwnScratch() {
    if (const char* before = ::getenv("TMPDIR")) before_ = before;
    ::setenv("TMPDIR", dir_.path().c_str(), 1);
  }
  ~OwnScratch() {
    if (before_)
      ::setenv("TMPDIR", before_->c_str(), 1);
    else
      ::unsetenv("TMPDIR");
  }
  OwnScratch(const OwnScratch&) = delete;
  OwnScratch& operator=(const OwnScratch&) = delete;

 private:
  TempDir dir_;
  std::optional<std::string> before_;
};

}  // namespace cellfeed::testing
