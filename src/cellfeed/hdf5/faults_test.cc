// Files on a source that fails: what was written or a named error, whatever fails and when, and
// what was written once it works again.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <chrono>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/hdf5/dataset_bytes.h"
#include "cellfeed/hdf5/file.h"
#include "cellfeed/io/memory_source.h"
#include "cellfeed/testing/faulty_byte_source.h"
#include "cellfeed/testing/hdf5_oracle.h"
#include "cellfeed/testing/hdf5_parts.h"
#include "cellfeed/testing/slow_byte_source.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::hdf5 {
namespace {

using cellfeed::testing::FaultyByteSource;
using cellfeed::testing::make_group;
using cellfeed::testing::OracleId;
using cellfeed::testing::TempDir;
using cellfeed::testing::write_text;
using Source = std::shared_ptr<const io::ByteSource>;

constexpr std::uint64_t kMaxBytes = 1 << 20;
constexpr int kGroups = 6;

void write_squares(hid_t group, const std::string& name, hsize_t chunk) {
  const hsize_t shape = 5000, most = H5S_UNLIMITED;
  const OracleId space(H5Screate_simple(1, &shape, chunk == 0 ? nullptr : &most));
  const OracleId properties(H5Pcreate(H5P_DATASET_CREATE));
  if (chunk != 0) {
    H5Pset_chunk(properties, 1, &chunk);
    H5Pset_deflate(properties, 1);
  }
  const OracleId dataset(
      H5Dcreate2(group, name.c_str(), H5T_STD_I32LE, space, H5P_DEFAULT, properties, H5P_DEFAULT));
  std::vector<int> values(shape);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int>(i * i);
  H5Dwrite(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
}

// Of many pages, so that reading it takes many reads.
Source write_file(H5F_libver_t low) {
  const TempDir dir;
  {
    const OracleId access(H5Pcreate(H5P_FILE_ACCESS));
    H5Pset_libver_bounds(access, low, H5F_LIBVER_LATEST);
    const OracleId file(H5Fcreate(dir.file("f.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access));
    for (int i = 0; i < kGroups; ++i) {
      const OracleId group = make_group(file, fmt::format("group {}", i));
      for (int a = 0; a < 12; ++a) write_text(group, fmt::format("text {}", a), "a few words");
      write_squares(group, "chunked", 100);
      write_squares(group, "whole", 0);
    }
  }
  return io::make_memory_source("faulty.h5", TempDir::read_all(dir.file("f.h5")));
}

void add_all(const Object& object, std::string& text) {
  text += object.path();
  for (const Attribute& attribute : object.attributes())
    text += attribute.name + object.text_attribute(attribute.name).value_or("-");
  if (object.kind() == ObjectKind::kDataset) {
    const auto values = DatasetBytes(object.dataset()).read_all(kMaxBytes);
    text.append(reinterpret_cast<const char*>(values.data()), values.size());
    return;
  }
  for (const std::string& name : object.group().member_names())
    add_all(*object.group().find(name), text);
}

std::string all_of(const File& file) {
  std::string text;
  add_all(file.root(), text);
  return text;
}

class Faulty : public ::testing::TestWithParam<H5F_libver_t> {};
INSTANTIATE_TEST_SUITE_P(All, Faulty, ::testing::Values(H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST));

TEST_P(Faulty, GivesWhatWasWrittenOrANamedErrorAndRecovers) {
  const Source sound = write_file(GetParam());
  const auto counted = std::make_shared<FaultyByteSource>(sound, cellfeed::testing::Faults{});
  const std::string expected = all_of(File::open(counted));
  ASSERT_GT(counted->reads(), 10);
  std::mt19937_64 random(5);
  int n_errors = 0, n_recovered = 0;
  for (int round = 0; round < 200; ++round) {
    cellfeed::testing::Faults faults;
    if (round % 2 == 0) {
      faults.fail_at_read =
          static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(counted->reads()));
      faults.n_failing = 1 + static_cast<std::int64_t>(random() % 2);
    } else {
      faults.fail_at_offset =
          static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(sound->size()));
    }
    Source source = std::make_shared<FaultyByteSource>(sound, faults);
    if (round % 3 == 0)  // late, and in pieces
      source = std::make_shared<cellfeed::testing::SlowByteSource>(
          source, cellfeed::testing::SlowOptions{
                      .max_latency = std::chrono::microseconds(20),
                      .max_piece = 1 + static_cast<std::int64_t>(random() % 50'000)});
    std::optional<File> file;
    const auto start = std::chrono::steady_clock::now();
    for (int attempt = 0, failed = 0; attempt < 4; ++attempt) {
      try {
        if (!file) file.emplace(File::open(source));
        EXPECT_EQ(all_of(*file), expected) << round;
        n_recovered += failed > 0;
        break;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kIo) << error.what();
        EXPECT_EQ(error.path(), "faulty.h5");
        n_errors += failed++ == 0;
      }
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  }
  EXPECT_GT(n_errors, 50);
  EXPECT_GT(n_recovered, 30);
}

}  // namespace
}  // namespace cellfeed::hdf5
