// Zip files as stores of values; what zipfile of Python writes is read in tests/python.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/testing/temp_dir.h"
#include "cellfeed/testing/zarr_files.h"
#include "cellfeed/zarr/key_store.h"

namespace cellfeed::zarr {
namespace {

using ::testing::ElementsAre;
using Entries = std::vector<std::pair<std::string, testing::ZarrFiles::Bytes>>;

testing::ZarrFiles::Bytes text(std::string_view content) {
  const auto bytes = std::as_bytes(std::span(content));
  return {bytes.begin(), bytes.end()};
}

std::shared_ptr<const KeyStore> open_entries(const testing::TempDir& place,
                                             const Entries& entries) {
  return open_zip_store(place.write("a.zip", testing::ZarrFiles::zipped(entries)));
}

TEST(ZipStore, OfOneNameTheLastEntryCounts) {
  const testing::TempDir place;
  const auto store = open_entries(
      place, {{"zarr.json", text("old")}, {"a/b", text("1")}, {"zarr.json", text("new")}});
  EXPECT_EQ(read_text(*store, "zarr.json"), "new");
  EXPECT_EQ(read_text(*store, "a/b"), "1");
  EXPECT_FALSE(read_text(*store, "a"));
  EXPECT_FALSE(store->status("c"));
}

TEST(ZipStore, NamesInAFolder) {
  const testing::TempDir place;
  const auto store = open_entries(place, {{".zgroup", text("x")},
                                          {"obs/a/0", text("x")},
                                          {"obs/a/1", text("x")},
                                          {"obs/b", text("x")},
                                          {"obsm/c", text("x")}});
  EXPECT_THAT(store->names_in(""), ElementsAre(".zgroup", "obs", "obsm"));
  EXPECT_THAT(store->names_in("obs"), ElementsAre("a", "b"));
}

TEST(ZipStore, AFolderAroundTheStoreIsNoPartOfItsKeys) {
  const testing::TempDir place;
  const auto store =
      open_entries(place, {{"a.zarr/.zgroup", text("x")}, {"a.zarr/obs/.zgroup", text("y")}});
  EXPECT_EQ(read_text(*store, "obs/.zgroup"), "y");
}

TEST(ZipStore, BytesBeforeItAreNoPartOfItsOffsets) {
  const testing::TempDir place;
  auto bytes = text("something before");
  const auto zip = testing::ZarrFiles::zipped({{"zarr.json", text("content")}});
  bytes.insert(bytes.end(), zip.begin(), zip.end());
  EXPECT_EQ(read_text(*open_zip_store(place.write("a.zip", bytes)), "zarr.json"), "content");
}

TEST(ZipStore, EveryShorterFileIsAnError) {
  const testing::TempDir place;
  const auto zip = testing::ZarrFiles::zipped({{"zarr.json", text("content")}});
  for (std::size_t n = 0; n < zip.size(); ++n)
    EXPECT_THROW(open_zip_store(place.write("a.zip", std::span(zip).first(n))), Error) << n;
}

TEST(ZipStore, AnyByteThatIsAnotherIsAnErrorOrNoMatter) {
  const testing::TempDir place;
  const auto zip = testing::ZarrFiles::zipped({{"zarr.json", text("content")}});
  for (std::size_t i = 0; i < zip.size(); ++i) {
    auto changed = zip;
    changed[i] ^= std::byte{0x41};
    try {
      const auto store = open_zip_store(place.write("a.zip", changed));
      const auto value = store->open("zarr.json");
      if (!value) continue;
      std::vector<std::byte> bytes(static_cast<std::size_t>(value->size()));
      value->read(0, bytes);
      store->check("zarr.json", bytes);
      EXPECT_EQ(bytes, text("content")) << i;
    } catch (const Error& error) {
      EXPECT_NE(error.kind(), ErrorKind::kInternal) << i << error.what();
    }
  }
}

TEST(SoundKeys, LeadNowhereElse) {
  for (const char* key : {"a", "a/b", ".zgroup", "a..b/c"}) EXPECT_TRUE(is_sound_key(key)) << key;
  for (const char* key : {"", "/a", "a/", "a//b", "..", "../a", "a/../b", "a/./b", "."})
    EXPECT_FALSE(is_sound_key(key)) << key;
}

}  // namespace
}  // namespace cellfeed::zarr
