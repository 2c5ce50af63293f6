// Filter: which cells of a collection an expression or a list of labels is true of. Checked when it
// is made: no value is read before. Thread-safe: immutable.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cellfeed/collection/collection.h"
#include "cellfeed/collection/filter_syntax.h"

namespace cellfeed::collection {

class Filter {
 public:
  // "tissue == 'lung' and n_counts > 500", as parse_filter has it. what: "obs", or "var" where rows
  // are genes, for messages. Throws kInvalidArgument, kInvalidType and kNoSuchKey, with the place.
  Filter(std::shared_ptr<const Collection> cells, std::string_view text, std::string what = "obs");
  // Rows whose label, or number, of every column is one of its list. Throws the same.
  using OneOfEach = std::vector<std::pair<std::string, std::vector<FilterValue>>>;
  Filter(std::shared_ptr<const Collection> cells, const OneOfEach& wanted);
  ~Filter();
  Filter(Filter&&) noexcept;

  // Labels that the columns have not, beside some that they have.
  const std::vector<std::string>& warnings() const { return warnings_; }
  // Ascending.
  std::vector<std::int64_t> rows(const ParallelFor& parallel) const;

 private:
  struct Test;
  class Builder;
  std::vector<std::int64_t> rows_between(std::int64_t begin, std::int64_t end) const;

  std::shared_ptr<const Collection> cells_;
  std::vector<std::string> warnings_;
  std::unique_ptr<const Test> test_;
};

}  // namespace cellfeed::collection
