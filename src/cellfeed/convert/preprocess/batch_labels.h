// BatchLabels: the batch of every cell of some sources, by an obs column.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cellfeed/convert/inputs/sources.h"
#include "cellfeed/matrix/obs.h"

namespace cellfeed::convert {

// Thread-safe: immutable.
class BatchLabels {
 public:
  // key empty: all cells are of one batch. Throws kNoSuchKey where a source lacks the column,
  // kInvalidArgument for numbers that are not whole.
  BatchLabels(const Sources& sources, const std::string& key);
  std::int64_t n_batches() const { return std::ssize(names_); }
  const std::vector<std::string>& names() const { return names_; }  // sorted
  // Throws kInvalidArgument naming the cell where the label is missing.
  std::int64_t of(std::int64_t source, std::int64_t row) const;

 private:
  std::string key_;
  std::vector<std::string> names_;
  struct OfSource {
    matrix::FixedColumn column;
    std::vector<std::int64_t> batch_of_code;
    std::string path;
    const format::RowStore* store;
  };
  std::vector<OfSource> sources_;
};

}  // namespace cellfeed::convert
