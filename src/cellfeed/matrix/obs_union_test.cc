#include "cellfeed/matrix/obs_union.h"

#include <arrow/api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "cellfeed/base/error.h"

namespace cellfeed::matrix {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const Categories> list(Categories categories) {
  return std::make_shared<const Categories>(std::move(categories));
}
std::shared_ptr<const Categories> texts(const std::string& letters) {
  Categories categories;
  for (const char c : letters) categories.emplace_back(std::string(1, c));
  return list(std::move(categories));
}

ObsDescription categorical(const std::string& letters, bool ordered = false) {
  return {ObsForm::kCategorical, {ValueKind::kText, DType::kI64}, texts(letters), ordered};
}
ObsDescription numbers(DType dtype) {
  return {ObsForm::kPlain, {dtype == DType::kBool ? ValueKind::kBool : ValueKind::kNumber, dtype}};
}

UnitedObs unite(const std::vector<ObsDescription>& columns) {
  std::vector<const ObsDescription*> pointers;
  std::vector<std::string> paths;
  for (const auto& column : columns) {
    pointers.push_back(&column);
    paths.push_back("file" + std::to_string(paths.size()));
  }
  return unite_obs("obs column 'x'", pointers, paths);
}

std::string letters_of(const UnitedObs& united) {
  std::string letters;
  for (const auto& category : united.categories) letters += category_text(category);
  return letters;
}

TEST(UniteDtypes, HoldsAllExactlyWhateverTheirOrder) {
  struct Case {
    std::vector<DType> dtypes;
    DType united;
  };
  const std::vector<Case> cases{
      {{DType::kF32, DType::kF32}, DType::kF32},
      {{DType::kU16, DType::kF32}, DType::kF32},
      {{DType::kF32, DType::kI32}, DType::kF64},
      {{DType::kU8, DType::kI8}, DType::kI16},
      {{DType::kI16, DType::kU32}, DType::kI64},
      {{DType::kU64, DType::kI8}, DType::kI64},
      {{DType::kU64, DType::kU8}, DType::kU64},
      {{DType::kBool, DType::kU8}, DType::kU8},
      {{DType::kU16, DType::kI16, DType::kF32}, DType::kF32},
      {{DType::kU8, DType::kI32, DType::kU16}, DType::kI32},
  };
  for (auto [dtypes, united] : cases) {
    std::sort(dtypes.begin(), dtypes.end());
    do {
      EXPECT_EQ(unite_dtypes(dtypes), united);
    } while (std::next_permutation(dtypes.begin(), dtypes.end()));
  }
}

TEST(UniteObs, KeepsAnOrderThatAllAgreeOn) {
  const auto united = unite({categorical("zma"), categorical("zma")});
  EXPECT_EQ(letters_of(united), "zma");
  EXPECT_EQ(united.recodings[0], nullptr);
}

TEST(UniteObs, SortsWhereTheyDiffer) {
  const auto united = unite({categorical("zb"), categorical("a")});
  EXPECT_EQ(letters_of(united), "abz");
  EXPECT_EQ(*united.recodings[0], (Recoding{2, 1}));
  EXPECT_EQ(united.recodings[1], nullptr);  // 0 stays 0
}

TEST(UniteObs, MergesOrdersThatDoNotContradict) {
  const auto united = unite({categorical("lh", true), categorical("lmh", true)});
  EXPECT_EQ(letters_of(united), "lmh");
  EXPECT_TRUE(united.ordered);
  const auto free = unite({categorical("bz", true), categorical("az", true)});
  EXPECT_EQ(letters_of(free), "abz");
  EXPECT_TRUE(free.ordered);
  const auto contradictory = unite({categorical("lh", true), categorical("hl", true)});
  EXPECT_EQ(letters_of(contradictory), "hl");
  EXPECT_FALSE(contradictory.ordered);
  EXPECT_FALSE(unite({categorical("lh", true), categorical("lh")}).ordered);
}

TEST(UniteObs, AFileWithoutCategoriesChangesNothing) {
  const auto united = unite({categorical(""), categorical("ba", true)});
  EXPECT_EQ(letters_of(united), "ba");
  EXPECT_TRUE(united.ordered);
}

TEST(UniteObs, NumbersSortByValueAndStayNumbers) {
  const ValueType small{ValueKind::kNumber, DType::kI8};
  const ValueType large{ValueKind::kNumber, DType::kI64};
  const auto united =
      unite({{ObsForm::kCategorical, small, list({std::int64_t{10}, std::int64_t{2}}), false},
             {ObsForm::kCategorical, large, list({std::int64_t{-3}, std::int64_t{10}}), false}});
  EXPECT_EQ(united.categories, (Categories{std::int64_t{-3}, std::int64_t{2}, std::int64_t{10}}));
  EXPECT_EQ(united.type.dtype, DType::kI64);
}

TEST(UniteObs, TextMakesAllText) {
  const auto united = unite({categorical("zq", true),
                             {ObsForm::kText, {ValueKind::kText, DType::kI64}, texts("a"), false}});
  EXPECT_EQ(united.form, ObsForm::kText);
  EXPECT_EQ(letters_of(united), "aqz");
  EXPECT_FALSE(united.ordered);
}

TEST(UniteObs, RefusesOtherKindsNamingBothFiles) {
  const ObsDescription number_labels{
      ObsForm::kCategorical, {ValueKind::kNumber, DType::kI64}, list({std::int64_t{1}}), false};
  for (const auto& columns : {std::vector{categorical("a"), numbers(DType::kI8)},
                              std::vector{categorical("a"), number_labels},
                              std::vector{numbers(DType::kBool), numbers(DType::kI8)}}) {
    try {
      unite(columns);
      ADD_FAILURE() << "two kinds were united";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
      for (const char* part : {"'x'", "file0", "file1"}) EXPECT_THAT(error.what(), HasSubstr(part));
    }
  }
}

TEST(Categories, RefuseRepeatsMissingOnesAndNaN) {
  arrow::StringBuilder builder;
  EXPECT_TRUE(builder.AppendValues({"a", "b", "a"}).ok());
  EXPECT_THROW(read_categories(**builder.Finish(), "x"), Error);
  EXPECT_TRUE(builder.Append("a").ok() && builder.AppendNull().ok());
  EXPECT_THROW(read_categories(**builder.Finish(), "x"), Error);
  arrow::DoubleBuilder doubles;
  EXPECT_TRUE(doubles.Append(std::numeric_limits<double>::quiet_NaN()).ok());
  EXPECT_THROW(read_categories(**doubles.Finish(), "x"), Error);
}

TEST(Categories, GoToArrowAndBack) {
  for (const auto& [categories, type] : std::vector<std::pair<Categories, ValueType>>{
           {{std::string("b"), std::string("")}, {ValueKind::kText, DType::kI64}},
           {{true, false}, {ValueKind::kBool, DType::kBool}},
           {{std::int64_t{-4}, std::int64_t{100}}, {ValueKind::kNumber, DType::kI8}},
           {{std::uint64_t{1} << 63}, {ValueKind::kNumber, DType::kU64}},
           {{0.5, -1.0}, {ValueKind::kNumber, DType::kF32}}})
    EXPECT_EQ(read_categories(*make_category_array(categories, type), "x"), categories);
}

}  // namespace
}  // namespace cellfeed::matrix
