// FilterCondition: what one obs column is asked, checked when it is made. Thread-safe: immutable.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/collection/filter_syntax.h"
#include "cellfeed/collection/obs_join.h"

namespace cellfeed::collection {

// Of three values, as pandas' nullable booleans have them: "and" is the least of its parts, "or"
// the greatest, and what is unknown stays so under "not".
enum class Truth : std::uint8_t { kFalse, kUnknown, kTrue };

class FilterCondition {
 public:
  // comparison: "==", "!=", "<", "<=", ">", ">=" with one value; "in", "not in" with any number;
  // "is missing", "is not missing" with none, and kIsTrue, for columns of booleans. As in pandas,
  // missing values fail all of these but "!=", "not in" and "is missing"; of kIsTrue they are
  // unknown. what: "obs" or "var", for messages. Throws kInvalidArgument for labels that the column
  // has not, kInvalidType for values of another kind. Of several labels some may be unknown: what
  // to say of them is added to warnings.
  static constexpr const char* kIsTrue = "is true";
  FilterCondition(std::shared_ptr<const JoinedColumn> column, std::string comparison,
                  const std::vector<FilterValue>& values, const std::string& what,
                  std::vector<std::string>& warnings);

  const JoinedColumn& column() const { return *column_; }
  // Whether it is asked of values only whether they are missing.
  static bool asks_only_missing(const std::string& comparison,
                                const std::vector<FilterValue>& values);

  // values: as the column gathers them. holds: one of each.
  void test(const void* values, std::span<Truth> holds) const;

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
    kPresent,
    kTruth
  };
  // A number to compare with.
  struct Number {
    enum class Kind { kWhole, kLarge, kReal };
    Kind kind = Kind::kWhole;
    std::int64_t whole = 0;
    std::uint64_t large = 0;  // beyond int64
    double real = 0;

    // Of the value to this one. Whole numbers and floats are compared exactly, float32 as float32.
    template <typename T>
    std::partial_ordering order_of(T value) const;
  };

  void take_numbers(const std::vector<FilterValue>& values, const std::string& what);
  void take_codes(const std::vector<FilterValue>& values, const std::string& what,
                  std::vector<std::string>& warnings);
  void require_comparable(const FilterValue& value, const std::string& what) const;
  template <typename T>
  bool holds_of(T value) const;
  template <typename T>
  Truth truth_of(T value) const;

  std::shared_ptr<const JoinedColumn> column_;
  Test test_ = Test::kEqual;
  std::vector<Number> numbers_;  // or codes
  bool wants_missing_ = false;
};

}  // namespace cellfeed::collection
