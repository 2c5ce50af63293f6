// Windows read past the system's cache: those that the formula of the rows gives, whatever pieces
// they lie in; and when rows are read so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/series/append.h"
#include "cellfeed/series/build.h"
#include "cellfeed/series/windows.h"
#include "cellfeed/testing/memory_file_system.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::series {
namespace {

using cellfeed::testing::MemoryFileSystem;
using cellfeed::testing::TempDir;

constexpr std::int64_t kRowsEach = 700, kEntities = 3, kX = 9, kY = 2;

float value_at(std::int64_t entity, std::int64_t time, std::int64_t column) {
  return static_cast<float>(column == 0 ? double(1000 * entity + time) : std::sin(double(time)));
}

std::string rows_as_csv(std::int64_t first, std::int64_t end) {
  std::string text = "e,t,a,b\n";
  for (std::int64_t e = 0; e < kEntities; ++e)
    for (std::int64_t t = first; t < end; ++t)
      text +=
          fmt::format("{},{},{},{}\n", e, t, double(value_at(e, t, 0)), double(value_at(e, t, 1)));
  return text;
}

// Three entities, each in two places of the file.
class DirectWindows : public ::testing::Test {
 protected:
  DirectWindows() {
    dir_.write("a.csv", rows_as_csv(0, kRowsEach / 2));
    dir_.write("b.csv", rows_as_csv(kRowsEach / 2, kRowsEach));
    BuildOptions build;
    build.inputs = {dir_.file("a.csv")};
    build.output_dir = dir_.file("series");
    build.columns.entity = "e";
    build.columns.time = {"t"};
    build.scaler = ScalerKind::kNone;
    build_series(build);
    AppendOptions append;
    append.inputs = {dir_.file("b.csv")};
    append.dir = dir_.file("series");
    append_series(append);
  }
  std::shared_ptr<const SeriesRows> open(RowAccess access, std::int64_t available = 0) const {
    return SeriesRows::open(
        dir_.file("series"),
        {.access = access, .available_memory = [available] { return available; }});
  }
  static SeriesWindows windows_of(std::shared_ptr<const SeriesRows> rows,
                                  std::vector<std::int64_t> entities = {0, 1, 2}) {
    WindowOptions options;
    options.window = kX;
    options.horizon = kY;
    options.features = {0, 1};
    options.targets = {1};
    options.entities = std::move(entities);
    return {std::move(rows), std::move(options)};
  }
  TempDir dir_;
};

void expect_formula(const SeriesWindows& windows, const std::vector<std::int64_t>& numbers) {
  const std::int64_t each = kRowsEach - kX - kY + 1;
  ASSERT_EQ(windows.size(), kEntities * each);
  std::vector<float> x(numbers.size() * kX * 2), y(numbers.size() * kY);
  windows.will_read(numbers);
  windows.copy(numbers,
               {reinterpret_cast<std::byte*>(x.data()), reinterpret_cast<std::byte*>(y.data())}, 2);
  std::size_t i = 0, k = 0;
  for (const std::int64_t number : numbers) {
    const std::int64_t entity = number / each, first = number % each;
    for (std::int64_t t = first; t < first + kX; ++t)
      for (std::int64_t c = 0; c < 2; ++c) ASSERT_EQ(x[i++], value_at(entity, t, c)) << number;
    for (std::int64_t t = first + kX; t < first + kX + kY; ++t)
      ASSERT_EQ(y[k++], value_at(entity, t, 1)) << number;
  }
}

// What the file system of the test refuses is no failure of ours.
#define OPEN_DIRECTLY(rows)                                 \
  std::shared_ptr<const SeriesRows> rows;                   \
  try {                                                     \
    rows = open(RowAccess::kDirect);                        \
  } catch (const Error& error) {                            \
    if (error.kind() != ErrorKind::kUnsupported) throw;     \
    GTEST_SKIP() << "this file system has no direct reads"; \
  }

TEST_F(DirectWindows, AreThoseOfTheFormula) {
  OPEN_DIRECTLY(rows);
  ASSERT_NE(rows->direct_file(1), nullptr);
  const SeriesWindows windows = windows_of(rows);
  std::vector<std::int64_t> all, few{windows.size() - 1}, repeated;
  for (std::int64_t i = 0; i < windows.size(); ++i) all.push_back((i * 1013) % windows.size());
  for (std::int64_t i = 0; i < 200; ++i) repeated.push_back(i % 3);
  for (const auto& numbers : {all, few, repeated, std::vector<std::int64_t>{}})
    expect_formula(windows, numbers);
  expect_formula(windows_of(open(RowAccess::kMap)), all);
}

TEST_F(DirectWindows, AreReadSoWhereTheirRowsTakeMoreThanThereIs) {
  const std::int64_t row_bytes = open(RowAccess::kMap)->row_bytes();
  const std::int64_t bytes = kEntities * kRowsEach * row_bytes;
  for (const std::int64_t available : {std::int64_t{0}, bytes, 2 * bytes})
    EXPECT_EQ(open(RowAccess::kAuto, available)->direct_file(kEntities * kRowsEach), nullptr);
  EXPECT_EQ(open(RowAccess::kMap, 1)->direct_file(kEntities * kRowsEach), nullptr);
  OPEN_DIRECTLY(asked);
  EXPECT_NE(asked->direct_file(0), nullptr);
  const auto rows = open(RowAccess::kAuto, bytes - 1);
  EXPECT_NE(rows->direct_file(kEntities * kRowsEach), nullptr);
  EXPECT_EQ(rows->direct_file(kRowsEach), nullptr);
  expect_formula(windows_of(rows), {1, 5, 3});
}

TEST_F(DirectWindows, OfAFileThatBecameShorterAreAnError) {
  OPEN_DIRECTLY(rows);
  const SeriesWindows windows = windows_of(rows);
  const std::string file = dir_.file("series/all_features.mmap");
  std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
  std::vector<float> x(kX * 2), y(kY);
  for (const std::int64_t number : {std::int64_t{0}, windows.size() - 1})
    EXPECT_THROW(
        windows.copy(
            {&number, 1},
            {reinterpret_cast<std::byte*>(x.data()), reinterpret_cast<std::byte*>(y.data())}, 1),
        Error);
}

TEST_F(DirectWindows, AreOfALocalDisk) {
  const auto files = std::make_shared<MemoryFileSystem>();
  const io::FileSystemRegistration registration("store", files);
  for (const auto& entry : std::filesystem::directory_iterator(dir_.file("series"))) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const auto bytes = std::as_bytes(std::span(text));
    files->put("store://s/" + entry.path().filename().string(), {bytes.begin(), bytes.end()});
  }
  const auto available = [] { return std::int64_t{1}; };
  const auto rows = SeriesRows::open("store://s", {RowAccess::kAuto, available});
  EXPECT_EQ(rows->direct_file(kEntities * kRowsEach), nullptr);
  expect_formula(windows_of(rows), {7, 0});
  try {
    SeriesRows::open("store://s", {RowAccess::kDirect, available});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("local disk"));
  }
}

TEST(RowAccess, HasThreeNames) {
  EXPECT_EQ(row_access_from_name("map"), RowAccess::kMap);
  EXPECT_THROW(row_access_from_name("uring"), Error);
}

}  // namespace
}  // namespace cellfeed::series
