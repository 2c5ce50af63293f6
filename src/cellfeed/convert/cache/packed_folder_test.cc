// Packed rows of zarr stores that are folders: kept of the version that was opened, and of no
// other, whatever is written to one of its files, and when.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iterator>
#include <numeric>

#include "cellfeed/base/error.h"
#include "cellfeed/convert/cache/packed_place.h"
#include "cellfeed/convert/cache/packed_store.h"
#include "cellfeed/convert/inputs/row_reader.h"
#include "cellfeed/testing/expect_rows.h"
#include "cellfeed/testing/memory_file_system.h"
#include "cellfeed/testing/random_csr.h"
#include "cellfeed/testing/temp_dir.h"
#include "cellfeed/testing/thrown_error.h"
#include "cellfeed/testing/zarr_atlas.h"

namespace cellfeed::convert {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using testing::ZarrFiles;
using testing::ZarrOptions;

constexpr std::int64_t kRows = 200;
const ZarrOptions kSmallChunks{.chunk_elements = 100};
const ZarrOptions kWays[] = {
    kSmallChunks,
    {.chunk_elements = 100, .is_consolidated = false},
    {.format = 3, .chunk_elements = 100},
    {.format = 3, .chunk_elements = 50, .shard_chunks = 7},
    {.format = 3, .chunk_elements = 50, .shard_chunks = 7, .is_consolidated = false},
};

matrix::CsrBlock rows_of(std::uint64_t seed) {
  return testing::random_csr({.n_rows = kRows, .n_cols = 30, .seed = seed});
}

ZarrFiles atlas(const ZarrOptions& options, std::uint64_t seed = 1) {
  return testing::zarr_atlas(rows_of(seed), DType::kF32, options);
}

using Cells = std::shared_ptr<const collection::Collection>;

const PackedStore& store_of(const Cells& cells) {
  return dynamic_cast<const PackedStore&>(cells->matrix(0).store(0));
}
PackedLog& log_of(const Cells& cells) { return store_of(cells).log(); }

testing::DecodedRows entries_of(const Cells& cells) {
  std::vector<std::int64_t> rows(kRows);
  std::iota(rows.begin(), rows.end(), 0);
  return testing::decode_rows(*format::fetch_rows(cells->matrix(0).store(0), rows));
}

// All but the mark of a folder that is ours.
std::vector<std::string> visible_paths(const std::string& dir) {
  std::vector<std::string> paths;
  if (!fs::exists(dir)) return paths;
  for (const auto& entry : fs::directory_iterator(dir))
    if (!entry.path().filename().string().starts_with(".")) paths.push_back(entry.path());
  return paths;
}

// Where the store lies, and the folder of its cache.
struct Folder {
  virtual ~Folder() = default;
  virtual std::string path() const = 0;
  virtual void put(const std::string& key, const ZarrFiles::Bytes& bytes) const = 0;
  virtual void remove(const std::string& key) const = 0;

  void put(const ZarrFiles& files) const {
    for (const auto& [key, bytes] : files.files()) put(key, bytes);
  }
  Cells open(const format::OpenOptions& options = {}) const {
    return open_packed({path()}, {.open = options}, cache.file("cache"));
  }
  testing::DecodedRows plain() const {
    return entries_of(collection::Collection::open({path()}, {}));
  }
  std::vector<std::string> versions() const {
    std::vector<std::string> names;
    for (const std::string& of_file : visible_paths(cache.file("cache")))
      std::ranges::copy(visible_paths(of_file), std::back_inserter(names));
    return names;
  }

  testing::TempDir cache;
};

struct LocalFolder final : Folder {
  testing::TempDir dir;
  std::string path() const override { return dir.file("a.zarr"); }
  void put(const std::string& key, const ZarrFiles::Bytes& bytes) const override {
    fs::create_directories(fs::path(path() + "/" + key).parent_path());
    dir.write("a.zarr/" + key, bytes);
  }
  void remove(const std::string& key) const override { fs::remove(path() + "/" + key); }
  using Folder::put;
};

// As a bucket has them: nothing tells by its time.
struct RemoteFolder final : Folder {
  testing::MemoryPlace place;
  std::string path() const override { return place.file("a.zarr"); }
  void put(const std::string& key, const ZarrFiles::Bytes& bytes) const override {
    place.files().put(path() + "/" + key, bytes);
  }
  void remove(const std::string& key) const override { place.files().remove(path() + "/" + key); }
  using Folder::put;
};

// Reads and keeps all rows.
void fill(const Folder& folder) {
  const Cells cells = folder.open();
  entries_of(cells);
  flush_packed(*cells);
  ASSERT_TRUE(log_of(cells).is_complete()) << log_of(cells).take_warning();
}

template <typename Place>
class PackedFolder : public ::testing::Test {
 protected:
  Place folder_;
};
using Places = ::testing::Types<LocalFolder, RemoteFolder>;
TYPED_TEST_SUITE(PackedFolder, Places);

TYPED_TEST(PackedFolder, RowsAreThoseOfTheStoreAndReadOnce) {
  for (const ZarrOptions& way : kWays) {
    const TypeParam own;
    const ZarrFiles files = atlas(way);
    own.put(files);
    const auto wanted = own.plain();
    const Cells cells = own.open();
    EXPECT_EQ(entries_of(cells), wanted);
    flush_packed(*cells);
    EXPECT_TRUE(log_of(cells).is_complete());
    EXPECT_EQ(log_of(cells).take_warning(), "");
    const Cells again = own.open();
    // Nothing is there any more that could be read again.
    for (const auto& [key, bytes] : files.files())
      if (key.starts_with("X/") && key.find_first_of("0123456789") != std::string::npos)
        own.remove(key);
    EXPECT_EQ(entries_of(cells), wanted);
    EXPECT_EQ(entries_of(again), wanted);
  }
}

TYPED_TEST(PackedFolder, WholeOnesBecomeShards) {
  const Folder& folder = this->folder_;
  folder.put(atlas(kSmallChunks));
  fill(folder);
  const Cells cells = folder.open();
  const auto dirs = packed_shards(*cells);
  ASSERT_EQ(dirs.size(), 1);
  EXPECT_EQ(entries_of(collection::Collection::open(dirs, {})), folder.plain());
  EXPECT_EQ(entries_of(folder.open()), folder.plain());
}

TYPED_TEST(PackedFolder, AFileThatChangedBetweenRunsIsAnotherVersion) {
  const Folder& folder = this->folder_;
  folder.put(atlas(kSmallChunks));
  const auto bytes_of = [](const char* key) { return atlas(kSmallChunks).files().at(key); };
  fill(folder);
  // Of the same bytes: that is what looking cannot tell from others.
  std::vector<const char*> keys{"X/data/3", "obs/batch/0"};
  // A look at what was just written to a disk takes 2 s.
  if (!io::is_local(folder.path()))
    keys.insert(keys.end(), {"X/indices/0", "X/indptr/1", "X/.zattrs", "X/data/.zarray", ".zgroup",
                             ".zmetadata", "obs/.zattrs", "var/_index/0"});
  for (const char* key : keys) {
    const auto before = folder.versions();
    folder.put(key, bytes_of(key));
    const Cells cells = folder.open();
    EXPECT_EQ(log_of(cells).n_kept(), 0) << key;
    EXPECT_NE(folder.versions(), before) << key;
    EXPECT_EQ(folder.versions().size(), 1) << "rows of the old version are still there";
    entries_of(cells);
    flush_packed(*cells);
  }
  folder.remove("obs/batch/0");
  EXPECT_EQ(log_of(folder.open()).n_kept(), 0) << "removed";
  fill(folder);
  folder.put("X/data/999", bytes_of("X/data/3"));
  EXPECT_EQ(log_of(folder.open()).n_kept(), 0) << "added";
}

TYPED_TEST(PackedFolder, WhatRowsDoNotComeFromMayChange) {
  const Folder& folder = this->folder_;
  folder.put(atlas(kSmallChunks));
  fill(folder);
  folder.put("layers/log/data/0", {});
  folder.put("obsm/X_pca/0.0", {});
  EXPECT_TRUE(log_of(folder.open()).is_complete());
}

TYPED_TEST(PackedFolder, AStoreOfOtherValuesGivesThese) {
  const Folder& folder = this->folder_;
  folder.put(atlas(kSmallChunks));
  fill(folder);
  const auto old = folder.plain();
  folder.put(atlas(kSmallChunks, 2));
  const Cells cells = folder.open();
  EXPECT_EQ(entries_of(cells), folder.plain());
  EXPECT_NE(entries_of(cells), old);
}

// Looked at, written to, read.
TYPED_TEST(PackedFolder, WhatIsWrittenToBeforeItIsReadIsNotKept) {
  for (const char* key : {"X/data/2", "X/indices/1", "X/indptr/0"}) {
    const TypeParam folder;
    folder.put(atlas(kSmallChunks));
    Cells cells = folder.open();
    folder.put(key, atlas(kSmallChunks).files().at(key));
    try {
      entries_of(cells);
      flush_packed(*cells);
      EXPECT_THAT(log_of(cells).take_warning(), HasSubstr(key));
    } catch (const Error& error) {
      // Its time may tell.
      EXPECT_THAT(error.what(), HasSubstr("since the store was opened"));
    }
    EXPECT_EQ(log_of(cells).n_kept(), 0) << key;
    const std::string old = log_of(cells).place().folder();
    cells.reset();
    EXPECT_THAT(visible_paths(old), IsEmpty()) << key;
    EXPECT_EQ(entries_of(folder.open()), folder.plain());
  }
}

// Looked at, read, written to: rows are of what was looked at.
TYPED_TEST(PackedFolder, WhatIsWrittenToOnceItWasReadIsKeptAsItWas) {
  const Folder& folder = this->folder_;
  folder.put(atlas(kSmallChunks));
  const auto old = folder.plain();
  const Cells cells = folder.open();
  EXPECT_EQ(entries_of(cells), old);
  folder.put(atlas(kSmallChunks, 2));
  flush_packed(*cells);
  EXPECT_TRUE(log_of(cells).is_complete());
  EXPECT_EQ(entries_of(cells), old) << "as it was opened";
  const Cells anew = folder.open();
  EXPECT_EQ(log_of(anew).n_kept(), 0);
  EXPECT_EQ(entries_of(anew), folder.plain());
}

TYPED_TEST(PackedFolder, RowsOfPartsThatAreStillTheSameAreKeptUntilOneIsNot) {
  const Folder& folder = this->folder_;
  folder.put(atlas(kSmallChunks));
  const auto wanted = folder.plain();
  const Cells cells = folder.open();
  CsrPiece piece;
  read_rows(store_of(cells), 0, 20, piece);
  flush_packed(*cells);
  EXPECT_EQ(log_of(cells).n_kept(), 20);
  folder.remove("X/data/5");
  EXPECT_THAT(testing::error_of([&] { entries_of(cells); }), HasSubstr("X/data/5"));
  flush_packed(*cells);
  EXPECT_EQ(log_of(cells).n_kept(), 20);
  folder.put("X/data/5", atlas(kSmallChunks).files().at("X/data/5"));
  EXPECT_EQ(entries_of(folder.open()), wanted);
}

TYPED_TEST(PackedFolder, ShardsAreNotWrittenOfObsThatChanged) {
  const Folder& folder = this->folder_;
  folder.put(atlas(kSmallChunks));
  const Cells cells = folder.open();
  entries_of(cells);
  folder.put("obs/batch/0", atlas(kSmallChunks).files().at("obs/batch/0"));
  const std::string said = testing::error_of([&] { packed_shards(*cells); });
  EXPECT_THAT(said, HasSubstr("obs/batch")) << said;
  EXPECT_THAT(visible_paths(log_of(cells).shards_dir()), IsEmpty());
}

TYPED_TEST(PackedFolder, CellsWithoutAMatrixAreReadAsTheyAre) {
  const Folder& folder = this->folder_;
  folder.put(atlas(kSmallChunks));
  const Cells cells = folder.open({.layer = format::kNoLayer});
  EXPECT_EQ(dynamic_cast<const PackedStore*>(&cells->matrix(0).store(0)), nullptr);
  EXPECT_FALSE(fs::exists(folder.cache.file("cache")));
}

TEST(PackedLocalFolder, AFileThatTakesTheNameOfOneOfItsSizeAndTimeIsAnother) {
  const LocalFolder folder;
  folder.put(atlas(kSmallChunks));
  const auto replace = [&] {
    const std::string path = folder.path() + "/X/data/2";
    const auto time = fs::last_write_time(path);
    fs::copy(path, path + ".new");
    fs::last_write_time(path + ".new", time);
    fs::rename(path + ".new", path);
  };
  fill(folder);
  replace();
  Cells cells = folder.open();
  EXPECT_EQ(log_of(cells).n_kept(), 0);
  replace();
  entries_of(cells);
  flush_packed(*cells);
  EXPECT_EQ(log_of(cells).n_kept(), 0);
  EXPECT_THAT(log_of(cells).take_warning(), HasSubstr("'X/data/2' changed since it was opened"));
}

// The whole folder, as who writes a new one beside it does.
TEST(PackedLocalFolder, AFolderThatTakesItsPlaceIsAnother) {
  const LocalFolder folder;
  folder.put(atlas(kSmallChunks));
  const Cells cells = folder.open();
  const LocalFolder other;
  other.put(atlas(kSmallChunks, 2));
  fs::rename(folder.path(), folder.path() + ".old");
  fs::rename(other.path(), folder.path());
  try {
    entries_of(cells);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCorruptData);
  }
  flush_packed(*cells);
  EXPECT_EQ(log_of(cells).n_kept(), 0);
  EXPECT_EQ(entries_of(folder.open()), folder.plain());
}

TEST(PackedRemoteFolder, EachFileIsReadOnceInAllEpochs) {
  const RemoteFolder folder;
  folder.put(atlas(kSmallChunks));
  const Cells cells = folder.open();
  entries_of(cells);
  flush_packed(*cells);
  const std::int64_t before = folder.place.files().round_trips();
  for (int epoch = 0; epoch < 3; ++epoch) entries_of(cells);
  EXPECT_EQ(folder.place.files().round_trips(), before);
}

// A file system that cannot tell what is in a folder, and is not written to.
class Unlisted : public io::FileSystem {
 public:
  std::shared_ptr<const io::OpenDirectory> open_directory(const std::string& path) const override {
    throw_error(ErrorKind::kUnsupported, path, "cannot be listed");
  }
  void make_directories(const std::string&) const override {}
  void remove(const std::string&) const override {}
  std::string canonical(const std::string& path) const override { return path; }
};

// That of another one's files.
class UnlistedFiles final : public Unlisted {
 public:
  explicit UnlistedFiles(const testing::MemoryFileSystem& files) : files_(files) {}
  io::PathStatus status(const std::string& path) const override { return files_.status(of(path)); }
  std::unique_ptr<io::ByteSource> open(const std::string& path,
                                       const io::LocalFileOptions& options) const override {
    return files_.open(of(path), options);
  }

 private:
  static std::string of(const std::string& path) { return path.substr(path.find("memory")); }
  const testing::MemoryFileSystem& files_;
};

TEST(PackedRemoteFolder, WhereFoldersCannotBeListedNothingIsKept) {
  const RemoteFolder folder;
  folder.put(atlas(kSmallChunks));
  const io::FileSystemRegistration unlisted("unlisted",
                                            std::make_shared<UnlistedFiles>(folder.place.files()));
  const Cells cells = open_packed({"unlisted://" + folder.path()}, {}, folder.cache.file("cache"));
  EXPECT_EQ(entries_of(cells), folder.plain());
  EXPECT_FALSE(fs::exists(folder.cache.file("cache")));
}

// One file, which is written to just before each look at it.
class Rewritten final : public Unlisted {
 public:
  io::PathStatus status(const std::string&) const override {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return {.kind = io::PathKind::kFile,
            .size = 8,
            .modified_ns = std::chrono::nanoseconds(now).count(),
            .inode = ++n_looks_};
  }
  std::unique_ptr<io::ByteSource> open(const std::string& path,
                                       const io::LocalFileOptions&) const override {
    throw_error(ErrorKind::kUnsupported, path, "cannot be opened");
  }

 private:
  mutable std::uint64_t n_looks_ = 0;
};

TEST(PackedFile, OneThatIsBeingWrittenToIsNamed) {
  const io::FileSystemRegistration rewritten("rewritten", std::make_shared<Rewritten>());
  EXPECT_THAT(testing::error_of([] { look_at_settled_file("rewritten://a.h5ad"); }),
              HasSubstr("a.h5ad: the file is being written to"));
}

}  // namespace
}  // namespace cellfeed::convert
