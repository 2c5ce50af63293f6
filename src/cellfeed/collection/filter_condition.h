// FilterCondition: what one obs column is asked, checked when it is made. Thread-safe: immutable.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/collection/filter_syntax.h"
#include "cellfeed/collection/obs_join.h"

namespace cellfeed::collection {

class FilterCondition {
 public:
  // comparison: "==", "!=", "<", "<=", ">", ">=" with one value; "in", "not in" with any number;
  // "is missing", "is not missing" with none. As in pandas, missing values fail all of these but
  // "!=", "not in" and "is missing". what: "obs" or "var", for messages. Throws kInvalidArgument
  // for labels that the column has not, kInvalidType for values of another kind. Of several labels
  // some may be unknown: what to say of them is added to warnings.
  FilterCondition(std::shared_ptr<const JoinedColumn> column, std::string comparison,
                  const std::vector<FilterValue>& values, const std::string& what,
                  std::vector<std::string>& warnings);

  const JoinedColumn& column() const { return *column_; }
  // values: as the column gathers them. holds: one of each, 0 or 1.
  void test(const void* values, std::span<std::uint8_t> holds) const;

 private:
  enum class Test {
    kEqual,
    kUnequal,
    kLess,
    kLessEqual,
    kGreater,
    kGreaterEqual,
    kIn,
    kNotIn,
    kMissing,
    kPresent
  };
  // A number to compare with, exactly: whole, or else a float.
  struct Number {
    bool is_whole = true;
    std::int64_t whole = 0;
    double real = 0;
  };

  void take_numbers(const std::vector<FilterValue>& values, const std::string& what);
  void take_codes(const std::vector<FilterValue>& values, const std::string& what,
                  std::vector<std::string>& warnings);
  void require_comparable(const FilterValue& value, const std::string& what) const;
  template <typename T>
  bool holds_of(T value) const;

  std::shared_ptr<const JoinedColumn> column_;
  Test test_ = Test::kEqual;
  std::vector<Number> numbers_;  // or codes
  bool wants_missing_ = false;
};

}  // namespace cellfeed::collection
