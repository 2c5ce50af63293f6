// The rule by which one obs column of several files becomes one: opening, converting
// and exporting all use it. The result does not depend on the order of the files. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/matrix/categories.h"

namespace cellfeed::matrix {

enum class ObsForm {
  kPlain,        // numbers or booleans
  kText,         // labels row by row
  kCategorical,  // codes and categories
};

// One file's column.
struct ObsDescription {
  ObsForm form = ObsForm::kPlain;
  ValueType type;  // of the values, or of the categories
  // In the order of their codes; of a text column the labels that occur, where they are known.
  std::shared_ptr<const Categories> categories{};
  bool ordered = false;
};

using Recoding = std::vector<std::int32_t>;

struct UnitedObs {
  ObsForm form = ObsForm::kPlain;
  ValueType type;
  Categories categories;
  bool ordered = false;
  // Of each file: its code -> the united code; null where they are the same, or there are none.
  std::vector<std::shared_ptr<const Recoding>> recodings;
};

// columns[s] is null where file s lacks the column; it changes nothing.
//  - Text in any file makes the column text, and its labels the sorted union; it goes with
//    categories of text only.
//  - Files that agree on categories and their order keep that order; else it is the sorted union:
//    text by its bytes, numbers by value, False before True. Where all files call theirs ordered
//    and the orders merge without contradiction, the merged order; of labels that are free, the
//    smallest comes first.
//  - Numbers become unite_dtypes() of all. Booleans go with booleans only.
// what: "obs column 'x'". Throws kInvalidArgument naming two files that do not fit; kPrecision for
// a category that the united type cannot hold.
UnitedObs unite_obs(const std::string& what, std::span<const ObsDescription* const> columns,
                    std::span<const std::string> paths);

// Categories as values of a united type. Throws kPrecision for one that it cannot hold.
Categories convert_categories(const Categories& categories, const ValueType& type,
                              const std::string& what);

// The type that holds the values of all: float32 for float32 with integers of up to 16 bits, else
// float64 where any is a float; the widest of integers of one sign; twice the unsigned width, up to
// int64, for both (uint64 beside signed ones: int64, which its values must fit). Booleans count
// only where there is nothing else. REQUIRES: not empty.
DType unite_dtypes(std::span<const DType> dtypes);

// The largest integers up to which float64 holds all: 2^53.
inline constexpr std::int64_t kExactInFloat64 = std::int64_t{1} << 53;

}  // namespace cellfeed::matrix
