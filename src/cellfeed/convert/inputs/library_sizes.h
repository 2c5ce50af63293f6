// LibrarySizes: each cell's total over all genes of its source, for outputs that leave some of them
// out. Thread-safe: const. Lifetime: the sources outlive it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cellfeed/convert/inputs/row_reader.h"
#include "cellfeed/convert/inputs/sources.h"
#include "cellfeed/matrix/obs.h"

namespace cellfeed::convert {

enum class KeptTotals {
  kNever,
  kWhereNeeded,  // some source has genes that the joined axis has not, or knows totals that its
                 // rows do not have
  kAlways,
};

class LibrarySizes {
 public:
  explicit LibrarySizes(const Sources& sources, KeptTotals kept = KeptTotals::kWhereNeeded);

  bool are_kept() const { return are_kept_; }
  // Of the source's rows, which piece holds in the source's own columns; empty unless they are
  // kept.
  std::vector<double> of(std::int64_t source, std::span<const std::int64_t> rows,
                         const CsrPiece& piece) const;

 private:
  bool are_kept_ = false;
  std::vector<std::optional<matrix::FixedColumn>> known_;  // of each source, by itself
};

}  // namespace cellfeed::convert
