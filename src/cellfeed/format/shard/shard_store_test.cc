// The store reads what the writer wrote, in any order and by every way of reading.
#include "cellfeed/format/shard/shard_store.h"

#include <arrow/api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "cellfeed/base/error.h"
#include "cellfeed/testing/shard_fixture.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::format::shard {
namespace {

using cellfeed::testing::fixture_obs;
using cellfeed::testing::fixture_row;
using cellfeed::testing::ShardFixture;
using cellfeed::testing::TempDir;
using cellfeed::testing::write_fixture;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Decoded {
  std::vector<std::int64_t> place;
  std::vector<std::int32_t> indices;
  std::vector<float> values;
};

Decoded read_decoded(const RowStore& store, const std::vector<std::int64_t>& rows) {
  const auto fetched = fetch_rows(store, rows);
  std::vector<std::int64_t> sizes(rows.size());
  fetched->sizes(sizes);
  Decoded out;
  std::int64_t total = 0;
  for (const auto size : sizes) {
    out.place.push_back(total);
    total += size;
  }
  out.place.push_back(total);
  out.indices.resize(static_cast<std::size_t>(total));
  out.values.resize(static_cast<std::size_t>(total));
  std::vector<std::int32_t> counts(rows.size());
  const CsrTarget target{.place = out.place.data(),
                         .indices = out.indices.data(),
                         .values = out.values.data(),
                         .counts = counts.data()};
  const auto half = fetched->n_rows() / 2;
  fetched->decode(half, fetched->n_rows(), target);
  fetched->decode(0, half, target);
  for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(counts[i], sizes[i]);
  return out;
}

void expect_row(const Decoded& decoded, std::size_t i, std::int64_t cell, std::int64_t n_genes) {
  const auto expected = fixture_row(cell, n_genes);
  const auto begin = decoded.place[i];
  const auto end = decoded.place[i + 1];
  EXPECT_EQ(std::vector(decoded.indices.begin() + begin, decoded.indices.begin() + end),
            expected.indices)
      << "cell " << cell;
  EXPECT_EQ(std::vector(decoded.values.begin() + begin, decoded.values.begin() + end),
            expected.values)
      << "cell " << cell;
}

struct Way {
  Layout layout;
  std::string access;
};

class EveryWay : public ::testing::TestWithParam<Way> {};

TEST_P(EveryWay, ReadsEveryRowInAnyOrder) {
  TempDir dir;
  const ShardFixture fixture{.n_cells = 205,
                             .shard_size = 100,
                             .n_genes = 700,
                             .segment_bytes = 4096,
                             .layout = GetParam().layout};
  write_fixture(dir.path(), fixture);
  OpenOptions options;
  options.access = GetParam().access;
  const auto stores = open_shards(dir.path(), options);
  ASSERT_EQ(stores.size(), 3u);
  std::mt19937 random(1);
  std::int64_t first = 0;
  for (const auto& store : stores) {
    std::vector<std::int64_t> rows(static_cast<std::size_t>(store->info().n_rows));
    std::iota(rows.begin(), rows.end(), 0);
    rows.insert(rows.end(), {0, store->info().n_rows - 1, 0});
    std::shuffle(rows.begin(), rows.end(), random);
    const Decoded decoded = read_decoded(*store, rows);
    for (std::size_t i = 0; i < rows.size(); ++i)
      expect_row(decoded, i, first + rows[i], fixture.n_genes);
    first += store->info().n_rows;
  }
  EXPECT_EQ(first, 205);
}

INSTANTIATE_TEST_SUITE_P(
    Shards, EveryWay,
    ::testing::Values(Way{Layout::kPacked, "auto"}, Way{Layout::kPacked, "map"},
                      Way{Layout::kPacked, "pread"}, Way{Layout::kPacked, "uring"},
                      Way{Layout::kPacked, "direct"}, Way{Layout::kDense, "auto"},
                      Way{Layout::kDense, "map"}),
    [](const auto& info) {
      return (info.param.layout == Layout::kDense ? "dense_" : "packed_") + info.param.access;
    });

TEST(ShardStore, SaysWhatItHolds) {
  TempDir dir;
  const Manifest manifest = write_fixture(dir.path(), {});
  const auto stores = open_shards(dir.path(), {});
  EXPECT_EQ(stores[0]->info().format, "shard");
  EXPECT_EQ(stores[0]->info().compression, "packed");
  EXPECT_EQ(stores[2]->info().n_rows, 5);
  EXPECT_EQ(stores[0]->info().nnz + stores[1]->info().nnz + stores[2]->info().nnz, manifest.nnz);
  EXPECT_EQ(stores[1]->genes().names[3], "gene3");
  EXPECT_THAT(stores[1]->read_var()->schema()->field_names(), ElementsAre("_index", "length"));
  EXPECT_NE(stores[0]->fingerprint(), stores[1]->fingerprint());
  EXPECT_THAT(stores[0]->obs_names(), ElementsAre("type", "donor", "depth", "score", "is_doublet",
                                                  "passed", "_source_file", "_source_row"));
}

TEST(ShardStore, ReadsObsAsItWasGiven) {
  TempDir dir;
  write_fixture(dir.path(), {.n_cells = 25, .shard_size = 10});
  const auto stores = open_shards(dir.path(), {});
  const auto table = stores[1]->read_obs(2, 7);
  const auto expected = fixture_obs(12, 17);
  ASSERT_TRUE(table->ValidateFull().ok());
  for (const char* name : {"_index", "donor", "depth", "score", "is_doublet", "passed"})
    EXPECT_TRUE(table->GetColumnByName(name)->Equals(expected->GetColumnByName(name))) << name;
  EXPECT_TRUE(table->GetColumnByName("type")->Equals(expected->GetColumnByName("type")))
      << table->GetColumnByName("type")->ToString();
  EXPECT_EQ(table->GetColumnByName("_source_row")->GetScalar(0).ValueOrDie()->ToString(), "12");
}

TEST(ShardStore, MapsFixedColumnsWithoutLoadingThem) {
  TempDir dir;
  write_fixture(dir.path(), {});
  const auto stores = open_shards(dir.path(), {});
  const auto type = stores[0]->obs_column("type");
  EXPECT_TRUE(type.is_categorical);
  EXPECT_EQ(type.dtype, DType::kI8);
  EXPECT_THAT(matrix::category_texts(type), ElementsAre("T cell", "B cell", "unused"));
  const auto* codes = static_cast<const std::int8_t*>(type.values);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(codes[i], i % 5 == 4 ? -1 : i % 2);
  const auto doublet = stores[0]->obs_column("is_doublet");
  EXPECT_EQ(doublet.dtype, DType::kBool);
  ASSERT_NE(doublet.validity, nullptr);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ((doublet.validity[i / 8] >> (i % 8)) & 1, i % 3 != 2);
    const int stored = static_cast<const std::uint8_t*>(doublet.values)[i];
    EXPECT_EQ(stored, i % 3 != 2 && i % 2 == 0 ? 1 : 0);
  }
  EXPECT_EQ(stores[0]->obs_column("passed").validity, nullptr);
  const auto depth = stores[2]->obs_column("depth");
  EXPECT_EQ(static_cast<const std::int64_t*>(depth.values)[4], 24000);
  const auto donor = stores[0]->obs_column("donor");
  EXPECT_TRUE(donor.is_categorical);
  EXPECT_THAT(matrix::category_texts(donor), ElementsAre("donor0", "donor1", "donor2"));
}

TEST(ShardStore, NamesTheColumnsThereAre) {
  TempDir dir;
  write_fixture(dir.path(), {});
  const auto stores = open_shards(dir.path(), {});
  try {
    stores[0]->obs_column("cell_type");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNoSuchKey);
    EXPECT_THAT(error.what(), HasSubstr("donor"));
  }
}

TEST(ShardStore, HoldsNoCells) {
  TempDir dir;
  for (const Layout layout : {Layout::kPacked, Layout::kDense}) {
    const std::string path = dir.file(layout == Layout::kPacked ? "packed" : "dense");
    std::filesystem::create_directory(path);
    write_fixture(path, {.n_cells = 0, .layout = layout});
    const auto stores = open_shards(path, {});
    ASSERT_EQ(stores.size(), 1u);
    EXPECT_EQ(stores[0]->info().n_rows, 0);
    EXPECT_EQ(stores[0]->read_obs(0, 0)->num_rows(), 0);
    EXPECT_EQ(stores[0]->obs_column("depth").length, 0);
    EXPECT_EQ(stores[0]->obs_column("donor").length, 0);
    EXPECT_EQ(fetch_rows(*stores[0], {})->n_rows(), 0);
  }
}

TEST(ShardStore, RefusesRowsOutside) {
  TempDir dir;
  write_fixture(dir.path(), {});
  const auto stores = open_shards(dir.path(), {});
  for (const std::int64_t row : {std::int64_t{-1}, std::int64_t{10}}) {
    const std::vector<std::int64_t> rows{row};
    EXPECT_THROW(fetch_rows(*stores[0], rows), Error);
  }
  EXPECT_THROW(stores[0]->read_obs(5, 11), Error);
}

std::string open_error(const std::string& dir, ErrorKind kind) {
  try {
    const auto stores = open_shards(dir, {});
    for (const auto& store : stores) {
      store->obs_column("type");
      store->read_obs(0, store->info().n_rows);
    }
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "no error";
}

void exchange(const std::string& a, const std::string& b) {
  std::filesystem::rename(a, a + ".moved");
  std::filesystem::rename(b, a);
  std::filesystem::rename(a + ".moved", b);
}

TEST(ShardStore, NamesBothShardsWhenFilesWereExchanged) {
  TempDir dir;
  write_fixture(dir.path(), {.n_cells = 20});
  for (const char* extension : {".cells", ".parquet", ".arrow"}) {
    const std::string a = dir.file(std::string("shard_000000") + extension);
    const std::string b = dir.file(std::string("shard_000001") + extension);
    exchange(a, b);
    EXPECT_THAT(open_error(dir.path(), ErrorKind::kCorruptData),
                ::testing::AllOf(HasSubstr("shard 1"), HasSubstr("shard 0")))
        << extension;
    exchange(a, b);
  }
  EXPECT_EQ(open_error(dir.path(), ErrorKind::kCorruptData), "no error");
}

TEST(ShardStore, NamesAMissingFileAndTheRemedy) {
  TempDir dir;
  for (const char* name :
       {"shard_000001.cells", "shard_000001.parquet", "shard_000001.arrow", "genes.parquet"}) {
    const std::string path = dir.file(name + std::string(".dir"));
    std::filesystem::create_directory(path);
    write_fixture(path, {.n_cells = 20});
    std::filesystem::remove(path + "/" + name);
    EXPECT_THAT(open_error(path, ErrorKind::kNotFound),
                ::testing::AllOf(HasSubstr(name), HasSubstr("restore")))
        << name;
  }
}

// The layout of caches that keep each content once: snapshots/REV/name -> ../../blobs/HASH.
TEST(ShardStore, FollowsLinksAndNamesWhereTheyLead) {
  TempDir dir;
  const std::string inside = dir.file("inside");
  std::filesystem::create_directory(inside);
  write_fixture(inside, {});
  const std::string name = inside + "/shard_000001.cells";
  std::filesystem::rename(name, dir.file("blob"));
  std::filesystem::create_symlink("../blob", name);
  EXPECT_EQ(open_error(inside, ErrorKind::kCorruptData), "no error");
  std::filesystem::copy_file(inside + "/shard_000000.cells", dir.file("blob"),
                             std::filesystem::copy_options::overwrite_existing);
  open_error(inside, ErrorKind::kCorruptData);
  std::filesystem::remove(dir.file("blob"));
  EXPECT_THAT(open_error(inside, ErrorKind::kNotFound), HasSubstr("a link to " + dir.file("blob")));
}

TEST(ShardStore, SaysThatAFileIsTruncated) {
  TempDir dir;
  write_fixture(dir.path(), {});
  const std::string path = dir.file("shard_000000.cells");
  const auto size = std::filesystem::file_size(path);
  for (const std::uintmax_t left : {size - 1, std::uintmax_t{4096}, std::uintmax_t{100},
                                    std::uintmax_t{3}, std::uintmax_t{0}}) {
    std::filesystem::resize_file(path, left);
    open_error(dir.path(), ErrorKind::kCorruptData);
  }
}

TEST(ShardStore, RefusesUnknownVersionsOfAFile) {
  TempDir dir;
  write_fixture(dir.path(), {});
  std::fstream file(dir.file("shard_000000.cells"),
                    std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(8);
  file.put(9);
  file.close();
  EXPECT_THAT(open_error(dir.path(), ErrorKind::kUnsupported), HasSubstr("version"));
}

TEST(ShardStore, RefusesAnUnfinishedConversion) {
  TempDir dir;
  PartialManifest::start(dir.path(), "plan");
  EXPECT_TRUE(is_shard_dir(dir.path()));
  EXPECT_THAT(open_error(dir.path(), ErrorKind::kNotFound), HasSubstr("--resume"));
}

}  // namespace
}  // namespace cellfeed::format::shard
