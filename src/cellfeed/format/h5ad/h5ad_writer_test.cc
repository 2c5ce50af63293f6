// H5adWriter: every column kind comes back through the reader; nothing is left behind when writing
// fails.
#include "cellfeed/format/h5ad/h5ad_writer.h"

#include <arrow/api.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <filesystem>
#include <numeric>

#include "cellfeed/format/h5ad/h5ad_store.h"
#include "cellfeed/format/h5ad/hdf5_api.h"
#include "cellfeed/testing/row_store_conformance.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::format::h5ad {
namespace {

using testing::expect_error;
using testing::TempDir;

template <typename Builder, typename T>
std::shared_ptr<arrow::Array> make_array(const std::vector<std::optional<T>>& values) {
  Builder builder;
  for (const auto& value : values)
    if (!(value ? builder.Append(*value) : builder.AppendNull()).ok())
      throw std::runtime_error("arrow");
  return builder.Finish().ValueOrDie();
}

std::shared_ptr<arrow::Array> make_texts(const std::vector<std::optional<std::string>>& values) {
  return make_array<arrow::StringBuilder, std::string>(values);
}

std::shared_ptr<arrow::Array> make_categorical(const std::vector<std::optional<std::int8_t>>& codes,
                                               std::shared_ptr<arrow::Array> categories,
                                               bool ordered = false) {
  const auto indices = make_array<arrow::Int8Builder, std::int8_t>(codes);
  return std::make_shared<arrow::DictionaryArray>(
      arrow::dictionary(arrow::int8(), categories->type(), ordered), indices, categories);
}

std::shared_ptr<arrow::Table> make_table(
    const std::vector<std::pair<std::string, std::shared_ptr<arrow::Array>>>& columns) {
  arrow::FieldVector fields;
  arrow::ArrayVector arrays;
  for (const auto& [name, array] : columns) {
    fields.push_back(arrow::field(name, array->type()));
    arrays.push_back(array);
  }
  return arrow::Table::Make(
      arrow::schema(fields, arrow::key_value_metadata({{"index_name", "barcode"}})), arrays);
}

std::shared_ptr<arrow::Table> all_kinds() {
  return make_table({
      {"_index", make_texts({"a", "b", "ü"})},
      {"text", make_texts({"x", "", "z"})},
      {"text_missing", make_texts({"x", std::nullopt, "z"})},
      {"flag", make_array<arrow::BooleanBuilder, bool>({true, false, true})},
      {"flag_missing", make_array<arrow::BooleanBuilder, bool>({true, std::nullopt, false})},
      {"i8", make_array<arrow::Int8Builder, std::int8_t>({-128, 0, 127})},
      {"u16", make_array<arrow::UInt16Builder, std::uint16_t>({65535, 1, 0})},
      {"i64", make_array<arrow::Int64Builder, std::int64_t>({INT64_MIN, 1, INT64_MAX})},
      {"i32_missing", make_array<arrow::Int32Builder, std::int32_t>({std::nullopt, 5, 6})},
      {"f32", make_array<arrow::FloatBuilder, float>({0.5f, -1.f, 3e38f})},
      {"f64", make_array<arrow::DoubleBuilder, double>({0.1, 1e300, -0.0})},
      {"category", make_categorical({1, std::nullopt, 0}, make_texts({"T", "B"}), true)},
      {"category_of_numbers",
       make_categorical({0, 1, 1}, make_array<arrow::Int64Builder, std::int64_t>({30, 7}))},
  });
}

matrix::CsrBlock three_rows() {
  return testing::random_csr({.n_rows = 3, .n_cols = 4, .density = 0.7});
}

TEST(H5adWriterTest, WritesEveryKindOfColumn) {
  const TempDir directory;
  const auto obs = all_kinds();
  H5adWriter writer(directory.file("a.h5ad"), 4);
  writer.append(three_rows());
  writer.append_obs(*obs);
  writer.finish(nullptr);
  const auto store = open_h5ad(directory.file("a.h5ad"));
  const auto read = store->read_obs(0, 3);
  ASSERT_EQ(read->num_columns(), obs->num_columns());
  for (int i = 0; i < obs->num_columns(); ++i)
    EXPECT_TRUE(read->column(i)->Equals(obs->column(i)))
        << obs->field(i)->name() << read->column(i)->ToString();
  EXPECT_EQ(read->schema()->metadata()->Get("index_name").ValueOrDie(), "barcode");
  EXPECT_EQ(store->genes().names, (std::vector<std::string>{"0", "1", "2", "3"}));
}

TEST(H5adWriterTest, UnitesCategoriesOverPiecesAndWidensTheirCodes) {
  const TempDir directory;
  H5adWriter writer(directory.file("a.h5ad"), 1);
  std::vector<std::string> expected;
  for (int piece = 0; piece < 30; ++piece) {
    std::vector<std::optional<std::string>> texts, names;
    std::vector<std::optional<std::int8_t>> codes;
    for (int i = 0; i < 10; ++i) {
      texts.push_back("category " + std::to_string(piece * 5 + i));
      codes.push_back(static_cast<std::int8_t>(i));
      names.push_back("cell " + std::to_string(piece * 10 + i));
      expected.push_back(*texts.back());
    }
    writer.append_obs(*make_table(
        {{"_index", make_texts(names)}, {"c", make_categorical(codes, make_texts(texts))}}));
  }
  const std::vector<std::int64_t> indptr(301, 0);
  writer.append({.indptr = indptr});
  writer.finish(nullptr);
  const auto store = open_h5ad(directory.file("a.h5ad"));
  const auto column = store->obs_column("c");
  EXPECT_EQ(column.dtype, DType::kI16);  // 155 categories
  ASSERT_EQ(column.length, 300);
  const auto texts = matrix::category_texts(column);
  EXPECT_EQ(texts.size(), 155u);
  for (int i = 0; i < 300; ++i)
    EXPECT_EQ(texts[static_cast<const std::int16_t*>(column.values)[i]], expected[i]);
}

TEST(H5adWriterTest, TurnsNullableWhenALaterRowIsMissing) {
  const TempDir directory;
  H5adWriter writer(directory.file("a.h5ad"), 1);
  const auto piece = [](std::optional<std::int64_t> value) {
    return make_table({{"_index", make_texts({"c"})},
                       {"n", make_array<arrow::Int64Builder, std::int64_t>({value})}});
  };
  for (const auto& table : {piece(1), piece(2), piece(std::nullopt), piece(4)})
    writer.append_obs(*table);
  const std::vector<std::int64_t> indptr(5, 0);
  writer.append({.indptr = indptr});
  writer.finish(nullptr);
  const auto read = open_h5ad(directory.file("a.h5ad"))->read_obs(0, 4)->GetColumnByName("n");
  EXPECT_EQ(read->null_count(), 1);
  EXPECT_FALSE(read->GetScalar(2).ValueOrDie()->is_valid);
  EXPECT_EQ(read->GetScalar(3).ValueOrDie()->ToString(), "4");
}

TEST(H5adWriterTest, AppendsSlicesThatDoNotStartAtZero) {
  const TempDir directory;
  const auto block = testing::random_csr({.n_rows = 20, .n_cols = 50});
  H5adWriter writer(directory.file("a.h5ad"), 50, {.chunk_elements = 8});
  for (const auto& [begin, end] : {std::pair{0, 7}, {7, 7}, {7, 20}})
    writer.append({.indptr = block.indptr.span().subspan(begin, end - begin + 1),
                   .indices = block.indices.data(),
                   .values = matrix::value_buffer_data(block.values),
                   .dtype = DType::kF32});
  writer.finish(nullptr);
  std::vector<std::int64_t> rows(20);
  std::iota(rows.begin(), rows.end(), 0);
  testing::conformance::expect_rows(*open_h5ad(directory.file("a.h5ad")), block, rows);
}

TEST(H5adWriterTest, LeavesNothingBehindWithoutFinish) {
  const TempDir directory;
  {
    H5adWriter writer(directory.file("a.h5ad"), 4);
    writer.append(three_rows());
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(H5adWriterTest, RefusesAnExistingTarget) {
  const TempDir directory;
  directory.write("a.h5ad", "mine");
  expect_error(ErrorKind::kAlreadyExists, [&] { H5adWriter(directory.file("a.h5ad"), 4); });
  EXPECT_EQ(TempDir::read_all(directory.file("a.h5ad")).size(), 4u);
}

TEST(H5adWriterTest, RefusesATargetThatAppearedWhileWriting) {
  const TempDir directory;
  H5adWriter writer(directory.file("a.h5ad"), 4);
  directory.write("a.h5ad", "theirs");
  expect_error(ErrorKind::kAlreadyExists, [&] { writer.finish(nullptr); });
  EXPECT_EQ(TempDir::read_all(directory.file("a.h5ad")).size(), 6u);
}

TEST(H5adWriterTest, RefusesAMissingDirectory) {
  expect_error(
      ErrorKind::kNotFound, [] { H5adWriter("/no/such/directory/a.h5ad", 4); },
      "/no/such/directory");
}

TEST(H5adWriterTest, RefusesWhatDoesNotFit) {
  const TempDir directory;
  H5adWriter writer(directory.file("a.h5ad"), 4, {.value_dtype = DType::kU8});
  const std::vector<std::int64_t> indptr{0, 1};
  const std::vector<float> large{256}, one{1};
  const std::vector<std::int32_t> inside{0}, outside{4};
  expect_error(
      ErrorKind::kPrecision,
      [&] { writer.append({indptr, inside.data(), large.data(), DType::kF32}); }, "256");
  expect_error(
      ErrorKind::kInvalidArgument,
      [&] { writer.append({indptr, outside.data(), one.data(), DType::kF32}); }, "4");
  expect_error(
      ErrorKind::kInvalidArgument,
      [&] { writer.append_obs(*make_table({{"name", make_texts({"a"})}})); }, "_index");
  expect_error(
      ErrorKind::kUnsupported,
      [&] {
        H5adWriter other(directory.file("b.h5ad"), 4);
        const auto dates = arrow::MakeArrayOfNull(arrow::date32(), 1).ValueOrDie();
        other.append_obs(*make_table({{"_index", make_texts({"a"})}, {"day", dates}}));
      },
      "obs/day");
}

TEST(H5adWriterTest, RefusesObsOfAnotherLength) {
  const TempDir directory;
  {
    H5adWriter writer(directory.file("a.h5ad"), 4);
    writer.append(three_rows());
    writer.append_obs(*make_table({{"_index", make_texts({"only one"})}}));
    expect_error(ErrorKind::kInvalidArgument, [&] { writer.finish(nullptr); }, "obs 1 of 3");
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

}  // namespace
}  // namespace cellfeed::format::h5ad
