// What a file on a store that answers late costs: round trips of the slow double are counted.
#include <gtest/gtest.h>
#include <hdf5.h>

#include <array>
#include <vector>

#include "cellfeed/hdf5/file.h"
#include "cellfeed/io/local_file.h"
#include "cellfeed/testing/hdf5_oracle.h"
#include "cellfeed/testing/hdf5_parts.h"
#include "cellfeed/testing/slow_byte_source.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::hdf5 {
namespace {

using cellfeed::testing::make_group;
using cellfeed::testing::OracleId;
using cellfeed::testing::SlowByteSource;
using cellfeed::testing::TempDir;
using cellfeed::testing::write_text;

constexpr int kColumns = 60;

void write_numbers(hid_t parent, const char* name, const std::vector<double>& values) {
  const hsize_t n = values.size();
  const OracleId space(H5Screate_simple(1, &n, nullptr));
  const OracleId dataset(
      H5Dcreate2(parent, name, H5T_IEEE_F64LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  write_text(dataset, "encoding-type", "array");
}

// As anndata lays out a file: data between the metadata of every part.
void write_atlas(const std::string& path, H5F_libver_t low) {
  const OracleId access(H5Pcreate(H5P_FILE_ACCESS));
  H5Pset_libver_bounds(access, low, H5F_LIBVER_LATEST);
  const OracleId file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access));
  const std::vector<double> values(20'000, 1.5);
  const OracleId matrix = make_group(file, "X");
  write_text(matrix, "encoding-type", "csr_matrix");
  for (const char* name : {"data", "indices", "indptr"}) write_numbers(matrix, name, values);
  const OracleId obs = make_group(file, "obs");
  for (int i = 0; i < kColumns; ++i) {
    const OracleId column = make_group(obs, "column " + std::to_string(i));
    write_text(column, "encoding-type", "categorical");
    write_numbers(column, "codes", values);
    write_numbers(column, "categories", values);
  }
}

class RoundTrips : public ::testing::TestWithParam<H5F_libver_t> {};
INSTANTIATE_TEST_SUITE_P(All, RoundTrips,
                         ::testing::Values(H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST));

TEST_P(RoundTrips, OpeningAnAtlasTakesAHandful) {
  const TempDir dir;
  write_atlas(dir.file("atlas.h5"), GetParam());
  const auto source =
      std::make_shared<SlowByteSource>(io::open_local_file(dir.file("atlas.h5")),
                                       cellfeed::testing::SlowOptions{.max_piece = 1 << 20});
  const File file = File::open(source);
  EXPECT_EQ(file.root().member_names(), (std::vector<std::string>{"X", "obs"}));
  EXPECT_LE(source->round_trips(), 4);

  const std::array<std::string, 5> parts{"X", "X/data", "X/indices", "X/indptr", "obs"};
  std::vector<Object> objects;
  for (auto& object : file.find_many(parts)) objects.push_back(*object);
  EXPECT_EQ(objects[0].text_attribute("encoding-type"), "csr_matrix");
  EXPECT_EQ(objects[3].dataset().shape(), std::vector<std::uint64_t>{20'000});
  EXPECT_LE(source->round_trips(), 9);

  const std::int64_t before = source->round_trips();
  std::vector<std::string> names;
  for (const std::string& column : objects[4].group().member_names())
    for (const char* part : {"", "/codes", "/categories"}) names.push_back("obs/" + column + part);
  ASSERT_EQ(std::ssize(names), 3 * kColumns);
  objects.clear();
  for (auto& object : file.find_many(names)) objects.push_back(*object);
  for (const Object& object : objects)
    if (object.kind() == ObjectKind::kDataset) {
      EXPECT_EQ(object.dataset().shape().size(), 1u);
    }
  EXPECT_LE(source->round_trips() - before, 8) << "whatever the number of columns";
  for (const Object& object : objects) EXPECT_TRUE(object.text_attribute("encoding-type"));
}

}  // namespace
}  // namespace cellfeed::hdf5
