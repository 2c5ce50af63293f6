// Zarr stores: the conformance suite on both formats, and what damaged stores say.
#include "cellfeed/format/zarr/zarr_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <vector>

#include "cellfeed/testing/kept_store.h"
#include "cellfeed/testing/memory_file_system.h"
#include "cellfeed/testing/row_store_conformance.h"
#include "cellfeed/testing/temp_dir.h"
#include "cellfeed/testing/zarr_atlas.h"

namespace cellfeed::format::zarr {
namespace {

using testing::expect_error;
using testing::ZarrFiles;
using testing::ZarrOptions;

// Place: TempDir, or MemoryPlace: a file system that is not local, read where nothing is mapped.
template <typename Place>
testing::RowStoreFactory zarr_in(ZarrOptions options, std::int64_t cache_bytes = 1 << 20) {
  return [=](const matrix::CsrBlock& block, DType stored) {
    auto place = std::make_shared<Place>();
    testing::zarr_atlas(block, stored, options).write(*place, "a.zarr");
    auto store = open_zarr(place->file("a.zarr"), {.cache_bytes = cache_bytes});
    return std::make_unique<testing::KeptStore>(std::move(place), std::move(store));
  };
}

testing::RowStoreFactory zarr_zip_on_disk(ZarrOptions options) {
  return [=](const matrix::CsrBlock& block, DType stored) {
    auto place = std::make_shared<testing::TempDir>();
    const auto path =
        place->write("a.zarr.zip", testing::zarr_atlas(block, stored, options).zipped());
    return std::make_unique<testing::KeptStore>(place, open_zarr(path));
  };
}

testing::RowStoreFactory zarr_zip_in_memory(ZarrOptions options) {
  return [=](const matrix::CsrBlock& block, DType stored) {
    auto place = std::make_shared<testing::MemoryPlace>();
    const auto path = place->file("a.zarr.zip");
    place->files().put(path, testing::zarr_atlas(block, stored, options).zipped());
    return std::make_unique<testing::KeptStore>(place, open_zarr(path));
  };
}

const ZarrOptions kSharded{.format = 3, .chunk_elements = 50, .shard_chunks = 7};

using testing::MemoryPlace;
using testing::TempDir;
const bool kZarrConforms[] = {
    testing::register_row_store_conformance("zarr_v2", zarr_in<TempDir>({})),
    testing::register_row_store_conformance("zarr_v3", zarr_in<TempDir>({.format = 3})),
    testing::register_row_store_conformance("zarr_v3_no_cache", zarr_in<TempDir>({.format = 3}, 0)),
    testing::register_row_store_conformance(
        "zarr_v2_plain_tiny_chunks",
        zarr_in<TempDir>({.chunk_elements = 5, .is_compressed = false})),
    testing::register_row_store_conformance("zarr_v3_shards", zarr_in<TempDir>(kSharded)),
    testing::register_row_store_conformance(
        "zarr_v3_shards_index_first",
        zarr_in<TempDir>({.format = 3, .shard_chunks = 3, .index_is_first = true})),
    testing::register_row_store_conformance("zarr_v2_not_consolidated",
                                            zarr_in<TempDir>({.is_consolidated = false})),
    testing::register_row_store_conformance("zarr_v2_unmapped", zarr_in<MemoryPlace>({})),
    testing::register_row_store_conformance("zarr_v3_unmapped_no_cache",
                                            zarr_in<MemoryPlace>({.format = 3}, 0)),
    testing::register_row_store_conformance("zarr_v3_shards_unmapped",
                                            zarr_in<MemoryPlace>(kSharded)),
    testing::register_row_store_conformance("zarr_zip", zarr_zip_on_disk({})),
    testing::register_row_store_conformance("zarr_zip_shards", zarr_zip_on_disk(kSharded)),
    testing::register_row_store_conformance("zarr_zip_unmapped", zarr_zip_in_memory({})),
};

void expect_same_rows(const RowStore& store, const matrix::CsrBlock& block) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(block.n_rows));
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int64_t>(i);
  testing::conformance::expect_rows(store, block, rows);
}

void read_everything(const std::string& path) {
  const auto store = open_zarr(path);
  std::vector<std::int64_t> rows(static_cast<std::size_t>(store->info().n_rows));
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int64_t>(i);
  const auto fetched = fetch_rows(*store, rows);
  testing::decode_rows(*fetched);
  store->read_obs(0, store->info().n_rows);
  store->read_var();
}

// What an opened store of these options says once its files were changed.
void expect_damage(const ZarrOptions& options, const std::function<void(ZarrFiles&)>& change,
                   const std::string& text, ErrorKind kind = ErrorKind::kCorruptData) {
  const TempDir place;
  auto files = testing::zarr_atlas(testing::random_csr(), DType::kF32, options);
  change(files);
  files.write(place, "a.zarr");
  expect_error(kind, [&] { read_everything(place.file("a.zarr")); }, text);
}

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

void replace(ZarrFiles& files, const std::string& key, const std::string& from,
             const std::string& to) {
  auto& bytes = files.files().at(key);
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto at = text.find(from);
  ASSERT_NE(at, std::string::npos) << text;
  text.replace(at, from.size(), to);
  bytes = bytes_of(text);
}

TEST(ZarrStore, AMissingChunkOfAMatrixIsNamed) {
  expect_damage({}, [](ZarrFiles& f) { f.files().erase("X/data/1"); }, "'X/data/1'");
  expect_damage(
      {.format = 3}, [](ZarrFiles& f) { f.files().erase("X/indices/c/2"); }, "'X/indices/c/2'");
  expect_damage(kSharded, [](ZarrFiles& f) { f.files().erase("X/data/c/1"); }, "'X/data/c/1'");
}

TEST(ZarrStore, AMissingChunkOfAColumnIsItsFillValue) {
  const TempDir place;
  auto files = testing::zarr_atlas(testing::random_csr(), DType::kF32, {.chunk_elements = 10});
  files.files().erase("obs/batch/3");
  replace(files, ".zmetadata",
          R"("obs/batch/.zarray": {"zarr_format": 2, "order": "C", "fill_value": 0)",
          R"("obs/batch/.zarray": {"zarr_format": 2, "order": "C", "fill_value": 7)");
  files.write(place, "a.zarr");
  const auto column = open_zarr(place.file("a.zarr"))->obs_column("batch");
  for (std::int64_t i = 0; i < 100; ++i)
    EXPECT_EQ(static_cast<const std::int32_t*>(column.values)[i], i / 10 == 3 ? 7 : i % 3) << i;
}

TEST(ZarrStore, ADamagedChunkIsNamed) {
  for (const char* key : {"X/data/1", "X/indices/0", "X/indptr/0"}) {
    expect_damage({}, [&](ZarrFiles& f) { f.files().at(key).resize(7); }, key);
    expect_damage({}, [&](ZarrFiles& f) { f.files().at(key).clear(); }, key);
    expect_damage(
        {.is_compressed = false}, [&](ZarrFiles& f) { f.files().at(key).pop_back(); }, key);
  }
  expect_damage({}, [](ZarrFiles& f) { f.files().at("obs/_index/0").resize(20); }, "obs/_index/0");
}

TEST(ZarrStore, ADamagedIndexOfAShardIsNamed) {
  expect_damage(
      kSharded, [](ZarrFiles& f) { f.files().at("X/data/c/1").back() ^= std::byte{1}; },
      "X/data/c/1");
  expect_damage(
      kSharded, [](ZarrFiles& f) { f.files().at("X/data/c/1").resize(20); }, "its index alone");
}

TEST(ZarrStore, WhatIsNotReadableIsNamed) {
  const auto refuse = [](const std::string& from, const std::string& to, const std::string& text,
                         ErrorKind kind = ErrorKind::kUnsupported) {
    expect_damage(
        {.is_consolidated = false}, [&](ZarrFiles& f) { replace(f, "X/data/.zarray", from, to); },
        text, kind);
  };
  refuse("\"zstd\"", "\"bz2\"", "the compressor 'bz2'");
  refuse("\"filters\": null", R"("filters": [{"id": "delta"}])", "the filter 'delta'");
  refuse("<f4", "<c8", "<c8");
  refuse("\"zarr_format\": 2", "\"zarr_format\": 4", "zarr_format is 4");
  refuse("\"chunks\": [64]", "\"chunks\": [0]", "no elements", ErrorKind::kCorruptData);
  refuse("\"chunks\": [64]", "\"chunks\": [64, 1]", "2", ErrorKind::kCorruptData);
  refuse("\"chunks\": [64]", "\"chunks\": [9999999999]", "large", ErrorKind::kCorruptData);
  refuse("{", "[", "no JSON", ErrorKind::kCorruptData);
  const auto refuse_v3 = [](const std::string& from, const std::string& to,
                            const std::string& text) {
    expect_damage(
        {.format = 3, .is_consolidated = false},
        [&](ZarrFiles& f) { replace(f, "X/data/zarr.json", from, to); }, text,
        ErrorKind::kUnsupported);
  };
  refuse_v3("\"zstd\"", "\"lzma\"", "the codec 'lzma'");
  refuse_v3("\"float32\"", "\"complex64\"", "complex64");
  refuse_v3("\"regular\"", "\"rectangular\"", "rectangular");
  refuse_v3("[{\"name\": \"bytes\"",
            R"([{"name": "transpose", "configuration": {"order": [1]}}, {"name": "bytes")",
            "transposed");
}

TEST(ZarrStore, WhatIsNoAnnDataSaysSo) {
  const TempDir place;
  std::filesystem::create_directory(place.file("empty.zarr"));
  expect_error(
      ErrorKind::kCorruptData, [&] { open_zarr(place.file("empty.zarr")); },
      "neither zarr.json nor .zgroup");
  ZarrFiles group({});
  group.finish();
  group.write(place, "group.zarr");
  expect_error(
      ErrorKind::kNoSuchKey, [&] { open_zarr(place.file("group.zarr")); },
      "the zarr store holds no matrix");
  const std::vector<float> numbers(10);
  for (const int format : {2, 3}) {
    ZarrFiles array({.format = format, .is_consolidated = false});
    array.files().clear();
    array.add_numbers<float>("x", numbers);
    array.write(place, "outer" + std::to_string(format));
    expect_error(
        ErrorKind::kUnsupported,
        [&] { open_zarr(place.file("outer" + std::to_string(format) + "/x")); },
        "one array, not a group");
  }
}

// A key that leads out of the store is none.
TEST(ZarrStore, ColumnsDoNotLeadOutOfTheStore) {
  const TempDir place;
  auto files = testing::zarr_atlas(testing::random_csr(), DType::kF32, {.is_consolidated = false});
  replace(files, "obs/.zattrs", "\"batch\"", "\"../../b.zarr/obs/batch\"");
  files.write(place, "a.zarr");
  testing::zarr_atlas(testing::random_csr(), DType::kF32, {}).write(place, "b.zarr");
  const auto store = open_zarr(place.file("a.zarr"));
  expect_error(
      ErrorKind::kCorruptData, [&] { store->obs_column("../../b.zarr/obs/batch"); },
      "is not there");
}

TEST(ZarrStore, OfEntriesOfOneNameTheLastCounts) {
  const TempDir place;
  const auto block = testing::random_csr();
  auto files = testing::zarr_atlas(block, DType::kF32, {.format = 3});
  std::vector<std::pair<std::string, ZarrFiles::Bytes>> entries;
  for (const auto& [key, bytes] : files.files()) entries.emplace_back(key, bytes_of("{}"));
  entries.insert(entries.end(), files.files().begin(), files.files().end());
  const auto path = place.write("a.zarr.zip", ZarrFiles::zipped(entries));
  expect_same_rows(*open_zarr(path), block);
}

TEST(ZarrStore, AStoreThatIsWrittenToIsAnError) {
  const TempDir place;
  const auto files = testing::zarr_atlas(testing::random_csr(), DType::kF32, {});
  files.write(place, "a.zarr");
  const auto store = open_zarr(place.file("a.zarr"), {.cache_bytes = 0});
  const std::vector<std::int64_t> rows{1, 2, 3};
  testing::decode_rows(*fetch_rows(*store, rows));
  // A chunk that was located, in place, of another length.
  auto chunk = files.files().at("X/data/0");
  chunk.push_back(std::byte{0});
  place.write("a.zarr/X/data/0", chunk);
  expect_error(
      ErrorKind::kCorruptData, [&] { testing::decode_rows(*fetch_rows(*store, rows)); },
      "since the store was opened");
  files.write(place, "a.zarr");
  expect_error(
      ErrorKind::kCorruptData, [&] { testing::decode_rows(*fetch_rows(*store, rows)); }, "since");
}

TEST(ZarrStore, AShortenedOrDamagedZipFileIsAnError) {
  const TempDir place;
  const auto files = testing::zarr_atlas(testing::random_csr(), DType::kF32, {});
  const auto zip = files.zipped();
  for (const std::size_t size : {zip.size() - 1, zip.size() / 2, std::size_t{30}}) {
    const auto path = place.write("a.zarr.zip", std::span(zip).first(size));
    expect_error(ErrorKind::kCorruptData, [&] { read_everything(path); }, "zip");
  }
  auto damaged = zip;
  const auto at = std::ranges::search(damaged, files.files().at("obs/_index/0"));
  at.begin()[9] ^= std::byte{4};
  const auto path = place.write("b.zarr.zip", damaged);
  expect_error(ErrorKind::kCorruptData, [&] { read_everything(path); }, "'obs/_index/0'");
}

}  // namespace
}  // namespace cellfeed::format::zarr
