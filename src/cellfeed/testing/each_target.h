// Runs a check once for every instruction set of this machine that Highway can dispatch to. Sets
// that some kernels were not built for run their fallback.
#pragma once

#ifndef HWY_WANT_AVX3_DL
#define HWY_WANT_AVX3_DL  // as some kernels, so that the list has what they have
#endif

#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include <cstdint>

namespace cellfeed::testing {

template <typename Fn>
void for_each_target(const Fn& check) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    SCOPED_TRACE(hwy::TargetName(target));
    check();
  }
  hwy::SetSupportedTargetsForTest(0);
}

}  // namespace cellfeed::testing
