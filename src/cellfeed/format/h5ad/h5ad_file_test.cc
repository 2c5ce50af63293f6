// H5adStore on files made with HDF5 itself: storage layouts and damage that our own writer does not
// make.
#include <arrow/api.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <numeric>

#include "cellfeed/format/entry_store.h"
#include "cellfeed/format/h5ad/h5ad_store.h"
#include "cellfeed/format/h5ad/hdf5_api.h"
#include "cellfeed/format/h5ad/hdf5_write.h"
#include "cellfeed/io/codecs.h"
#include "cellfeed/testing/row_store_conformance.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::format::h5ad {
namespace {

using testing::expect_error;
using testing::TempDir;

// How one array is stored.
struct Storage {
  hsize_t chunk = 0;  // 0: contiguous
  bool shuffle = false;
  int gzip = 0;
  bool fletcher32 = false;
};

// A small AnnData file put together by hand.
class FileMaker {
 public:
  explicit FileMaker(const std::string& path, bool latest = false, hsize_t user_block = 0)
      : path_(path) {
    const Handle access(H5Pcreate(H5P_FILE_ACCESS));
    if (latest) H5Pset_libver_bounds(access.get(), H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    const Handle creation(H5Pcreate(H5P_FILE_CREATE));
    H5Pset_userblock(creation.get(), user_block);
    file_ = Handle(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.get(), access.get()));
  }
  hid_t id() const { return file_.get(); }

  template <typename T>
  void write_array(const std::string& name, const std::vector<T>& values,
                   const Storage& storage = {}) {
    write_array(name, values, file_type(dtype_of<T>()), storage);
  }
  template <typename T>
  void write_array(const std::string& name, const std::vector<T>& values, const Handle& type,
                   const Storage& storage) {
    const Handle dataset = make_array(name, type, values.size(), storage);
    const Handle memory = memory_type(dtype_of<T>());
    H5Dwrite(dataset.get(), memory.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  }
  Handle make_array(const std::string& name, const Handle& type, hsize_t length,
                    const Storage& storage) {
    const hsize_t unlimited = H5S_UNLIMITED;
    const Handle space(H5Screate_simple(1, &length, storage.chunk > 0 ? &unlimited : nullptr));
    const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
    if (storage.chunk > 0) H5Pset_chunk(properties.get(), 1, &storage.chunk);
    if (storage.shuffle) H5Pset_shuffle(properties.get());
    if (storage.gzip > 0) H5Pset_deflate(properties.get(), static_cast<unsigned>(storage.gzip));
    if (storage.fletcher32) H5Pset_fletcher32(properties.get());
    const Handle links(H5Pcreate(H5P_LINK_CREATE));
    H5Pset_create_intermediate_group(links.get(), 1);
    return Handle(H5Dcreate2(id(), name.c_str(), type.get(), space.get(), links.get(),
                             properties.get(), H5P_DEFAULT));
  }

  void describe_matrix(const std::string& name, std::vector<std::int64_t> shape,
                       const std::string& encoding = "csr_matrix") {
    const Handle group = open_written(id(), path_, name);
    write_encoding(group.get(), path_, encoding, "0.1.0");
    if (!shape.empty()) write_integers_attribute(group.get(), path_, "shape", shape);
  }
  void write_frame(const std::string& name, std::int64_t n) {
    const Handle group = create_group(id(), path_, name);
    write_encoding(group.get(), path_, "dataframe", "0.2.0");
    write_text_attribute(group.get(), path_, "_index", "_index");
    write_texts_attribute(group.get(), path_, "column-order", {});
    std::vector<std::int32_t> names(static_cast<std::size_t>(n));
    std::iota(names.begin(), names.end(), 0);
    write_array(name + "/_index", names);
  }
  void close() { file_ = Handle(); }

 private:
  Hdf5Session session_;
  std::string path_;
  Handle file_;
};

struct Parts {
  std::vector<std::int32_t> indptr{0, 2, 2, 5};
  std::vector<std::int32_t> indices{0, 3, 1, 2, 3};
  std::vector<float> data{1, 2, 3, 4, 5};
  std::vector<std::int64_t> shape{3, 4};
};

std::string make_file(const TempDir& directory, const Parts& parts, const Storage& storage = {}) {
  const std::string path = directory.file("a.h5ad");
  FileMaker maker(path);
  maker.write_array("X/indptr", parts.indptr, storage);
  maker.write_array("X/indices", parts.indices, storage);
  maker.write_array("X/data", parts.data, storage);
  maker.describe_matrix("X", parts.shape);
  maker.write_frame("obs", 3);
  maker.write_frame("var", 4);
  return path;
}

testing::DecodedRows read_rows(const RowStore& store, std::vector<std::int64_t> rows) {
  return testing::decode_rows(*fetch_rows(store, rows));
}

const testing::DecodedRows kExpected{{{0, 3}, {}, {1, 2, 3}}, {{1, 2}, {}, {3, 4, 5}}};

TEST(H5adFileTest, ReadsEveryStorageLayout) {
  const Storage layouts[] = {{},
                             {.chunk = 2},
                             {.chunk = 100},
                             {.chunk = 2, .gzip = 4},
                             {.chunk = 2, .shuffle = true, .gzip = 4},
                             {.chunk = 3, .shuffle = true, .gzip = 1, .fletcher32 = true},
                             {.chunk = 2, .fletcher32 = true},
                             {.chunk = 2, .shuffle = true}};
  for (const Storage& layout : layouts) {
    const TempDir directory;
    const auto store = open_h5ad(make_file(directory, {}, layout));
    EXPECT_EQ(read_rows(*store, {0, 1, 2}), kExpected);
  }
}

// Many chunks, so that the index has several levels; each kind of index HDF5 makes.
TEST(H5adFileTest, FindsChunksAsHdf5Does) {
  struct Kind {
    bool latest;
    hsize_t user_block;
    int gzip;
  };
  for (const Kind kind : {Kind{false, 0, 0}, Kind{false, 0, 1}, Kind{false, 1024, 0},
                          Kind{true, 0, 0}, Kind{true, 512, 1}}) {
    SCOPED_TRACE(::testing::Message()
                 << "latest " << kind.latest << " user block " << kind.user_block);
    const TempDir directory;
    const std::string path = directory.file("a.h5ad");
    const auto block = testing::random_csr({.n_rows = 400, .n_cols = 100, .density = 0.3});
    const std::vector<std::int64_t> indptr(block.indptr.begin(), block.indptr.end());
    const std::vector<std::int32_t> indices(block.indices.begin(), block.indices.end());
    const auto& values = std::get<matrix::Buffer<float>>(block.values);
    {
      FileMaker maker(path, kind.latest, kind.user_block);
      const Storage storage{.chunk = 7, .gzip = kind.gzip};
      maker.write_array("X/indptr", indptr);
      maker.write_array("X/indices", indices, storage);
      maker.write_array("X/data", std::vector<float>(values.begin(), values.end()), storage);
      maker.describe_matrix("X", {400, 100});
      maker.write_frame("obs", 400);
      maker.write_frame("var", 100);
    }
    const auto store = open_h5ad(path);
    testing::conformance::expect_rows(*store, block,
                                      testing::conformance::random_rows(400, 300, 1));
  }
}

TEST(H5adFileTest, HonoursFiltersThatOneChunkSkipped) {
  const TempDir directory;
  const std::string path = directory.file("a.h5ad");
  {
    FileMaker maker(path);
    Parts parts;
    maker.write_array("X/indptr", parts.indptr);
    maker.write_array("X/indices", parts.indices);
    const Handle data =
        maker.make_array("X/data", file_type(DType::kF32), 5, {.chunk = 5, .gzip = 4});
    const hsize_t start = 0;
    H5Dwrite_chunk(data.get(), H5P_DEFAULT, 1, &start, 20, parts.data.data());
    maker.describe_matrix("X", {3, 4});
    maker.write_frame("obs", 3);
    maker.write_frame("var", 4);
  }
  EXPECT_EQ(read_rows(*open_h5ad(path), {0, 1, 2}), kExpected);
}

TEST(H5adFileTest, EntriesThatWereNeverWrittenAreAnError) {
  for (const int gzip : {0, 4}) {
    const TempDir directory;
    const std::string path = directory.file("a.h5ad");
    {
      FileMaker maker(path);
      Parts parts;
      maker.write_array("X/indptr", parts.indptr);
      maker.write_array("X/indices", parts.indices);
      maker.make_array("X/data", file_type(DType::kF32), 5, {.chunk = 2, .gzip = gzip});
      maker.describe_matrix("X", {3, 4});
      maker.write_frame("obs", 3);
      maker.write_frame("var", 4);
    }
    expect_error(
        ErrorKind::kCorruptData, [&] { read_rows(*open_h5ad(path), {2}); }, "never written");
  }
}

TEST(H5adFileTest, InflatesEachChunkOncePerFetch) {
  const TempDir directory;
  const auto store =
      open_h5ad(make_file(directory, {}, {.chunk = 5, .gzip = 4}), {.cache_bytes = 0});
  std::int64_t tasks = 0;
  const std::vector<std::int64_t> rows{0, 2, 0, 2, 2};
  const auto counting = [&](std::int64_t n, const std::function<void(std::int64_t)>& task) {
    tasks += n;
    run_serially(n, task);
  };
  fetch_rows(*store, rows, counting);
  EXPECT_EQ(tasks, 2);  // one of data, one of indices
  fetch_rows(*store, rows, counting);
  EXPECT_EQ(tasks, 4);  // nothing kept
  const auto caching = open_h5ad(store->info().path);
  fetch_rows(*caching, rows, counting);
  fetch_rows(*caching, rows, counting);
  EXPECT_EQ(tasks, 6);  // the second fetch finds both in the cache
}

TEST(H5adFileTest, RowsOfAFileThatWasWrittenAgainAreAnError) {
  const TempDir directory;
  const std::string path = make_file(directory, {});
  const auto store = open_h5ad(path);
  EXPECT_EQ(read_rows(*store, {0, 1, 2}), kExpected);
  std::filesystem::rename(path, path + ".moved");  // which is still the file that was opened
  EXPECT_EQ(read_rows(*store, {0, 1, 2}), kExpected);
  std::filesystem::last_write_time(
      path + ".moved", std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
  expect_error(ErrorKind::kCorruptData, [&] { read_rows(*store, {0}); }, "written again");
  expect_error(ErrorKind::kCorruptData, [&] { store->read_obs(0, 1); }, "written again");
}

TEST(H5adFileTest, NamesTheRowWhereIndptrDecreases) {
  for (const Storage& storage : {Storage{}, Storage{.chunk = 2}}) {
    const TempDir directory;
    const std::string path = make_file(directory, {.indptr = {0, 3, 2, 5}}, storage);
    expect_error(
        ErrorKind::kCorruptData, [&] { read_rows(*open_h5ad(path), {0, 1}); },
        "row 1 goes from 3 to 2");
  }
}

TEST(H5adFileTest, ChecksTheEndsOfIndptr) {
  const TempDir directory;
  expect_error(
      ErrorKind::kCorruptData, [&] { open_h5ad(make_file(directory, {.indptr = {1, 2, 2, 5}})); },
      "starts at 1");
  expect_error(
      ErrorKind::kCorruptData, [&] { open_h5ad(make_file(directory, {.indptr = {0, 2, 2, 6}})); },
      "ends at 6");
  expect_error(
      ErrorKind::kCorruptData, [&] { open_h5ad(make_file(directory, {.indptr = {0, 5}})); },
      "2 entries, 3 rows");
}

TEST(H5adFileTest, ChecksShapeAndLengths) {
  const TempDir directory;
  expect_error(
      ErrorKind::kCorruptData, [&] { open_h5ad(make_file(directory, {.shape = {}})); }, "shape");
  expect_error(
      ErrorKind::kCorruptData, [&] { open_h5ad(make_file(directory, {.shape = {3}})); }, "shape");
  expect_error(
      ErrorKind::kCorruptData, [&] { open_h5ad(make_file(directory, {.shape = {-3, 4}})); }, "-3");
  expect_error(
      ErrorKind::kCorruptData, [&] { open_h5ad(make_file(directory, {.data = {1, 2}})); },
      "differ in length");
  expect_error(
      ErrorKind::kCorruptData, [&] { open_h5ad(make_file(directory, {.shape = {3, 9}})); },
      "'var'");
}

TEST(H5adFileTest, NamesFileRowAndEntryOfAnIndexOutOfRange) {
  const TempDir directory;
  const auto store = open_h5ad(make_file(directory, {.indices = {0, 3, 1, 7, 3}}));
  expect_error(
      ErrorKind::kCorruptData, [&] { read_rows(*store, {2}); },
      "row 2, entry 1: index 7, columns 4");
  EXPECT_EQ(read_rows(*store, {0}).indices[0], (std::vector<std::int32_t>{0, 3}));
}

TEST(H5adFileTest, FindsADamagedCompressedChunk) {
  const TempDir directory;
  const std::string path = make_file(directory, {}, {.chunk = 5, .gzip = 4, .fletcher32 = true});
  auto bytes = TempDir::read_all(path);
  // Each zlib stream starts with 0x78 0x5e or 0x01; damage all of them.
  for (std::size_t i = 0; i + 1 < bytes.size(); ++i)
    if (bytes[i] == std::byte{0x78} && bytes[i + 1] == std::byte{0x5e})
      bytes[i + 6] ^= std::byte{0xff};
  directory.write("b.h5ad", bytes);
  expect_error(
      ErrorKind::kCorruptData, [&] { read_rows(*open_h5ad(directory.file("b.h5ad")), {0, 2}); },
      "b.h5ad");
}

TEST(H5adFileTest, SaysWhatIsWrongWithFilesThatAreNotHdf5) {
  const TempDir directory;
  expect_error(ErrorKind::kNotFound, [&] { open_h5ad(directory.file("none.h5ad")); });
  directory.write("a", std::string_view());
  expect_error(ErrorKind::kCorruptData, [&] { open_h5ad(directory.file("a")); }, "empty");
  directory.write("a", "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 2\n");
  expect_error(ErrorKind::kCorruptData, [&] { open_h5ad(directory.file("a")); }, "git lfs pull");
  directory.write("a", "PK\3\4 this is a zip");
  expect_error(
      ErrorKind::kCorruptData, [&] { open_h5ad(directory.file("a")); }, "not an HDF5 file");
}

TEST(H5adFileTest, SurvivesTruncationAnywhere) {
  const TempDir directory;
  const auto bytes = TempDir::read_all(make_file(directory, {}, {.chunk = 2, .gzip = 1}));
  for (std::size_t size = 1; size < bytes.size(); size += 97) {
    directory.write("cut", std::span(bytes).first(size));
    expect_error(ErrorKind::kCorruptData, [&] { open_h5ad(directory.file("cut")); }, "cut");
  }
}

TEST(H5adFileTest, SurvivesFlippedBytesInCompressedChunks) {
  const TempDir directory;
  const auto bytes =
      TempDir::read_all(make_file(directory, {}, {.chunk = 5, .shuffle = true, .gzip = 4}));
  // Bytes behind each zlib header.
  std::mt19937 random(2);
  for (std::size_t i = 0; i + 20 < bytes.size(); ++i) {
    if (bytes[i] != std::byte{0x78} || bytes[i + 1] != std::byte{0x5e}) continue;
    auto damaged = bytes;
    damaged[i + random() % 16] ^= static_cast<std::byte>(1u << (random() % 8));
    directory.write("flip", damaged);
    try {
      read_rows(*open_h5ad(directory.file("flip")), {0, 1, 2});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCorruptData) << error.what();
    }
  }
}

TEST(H5adFileTest, TellsWhatItDoesNotRead) {
  const TempDir directory;
  const std::string path = directory.file("a.h5ad");
  {
    FileMaker maker(path);
    maker.write_array("X/data", std::vector<float>{1});
    maker.describe_matrix("X", {3, 4}, "coo_matrix");
    maker.write_array("layers/flat", std::vector<float>{1});
    maker.write_array("layers/old/data", std::vector<float>{1});
    const Handle old = open_written(maker.id(), path, "layers/old");
    write_text_attribute(old.get(), path, "h5sparse_format", "coo");
  }
  expect_error(ErrorKind::kUnsupported, [&] { open_h5ad(path); }, "coo_matrix");
  expect_error(
      ErrorKind::kCorruptData, [&] { open_h5ad(path, {.layer = "flat"}); },
      "must have 2 dimensions: 'layers/flat' has 1");
  expect_error(ErrorKind::kUnsupported, [&] { open_h5ad(path, {.layer = "layers/old"}); }, "coo");
  expect_error(
      ErrorKind::kNoSuchKey, [&] { open_h5ad(path, {.layer = "counts"}); }, "X, flat, old");
  expect_error(ErrorKind::kNoSuchKey, [&] { open_h5ad(path, {.layer = "raw"}); }, "X, flat, old");
}

Handle half_type() {
  Handle half(H5Tcopy(H5T_IEEE_F32LE));
  H5Tset_fields(half.get(), 15, 10, 5, 0, 10);
  H5Tset_size(half.get(), 2);
  H5Tset_ebias(half.get(), 15);
  return half;
}

// The values and the two arrays of numbers stored as these types; HDF5 converts what is written.
std::string make_typed_file(const TempDir& directory, hid_t data, hid_t indices, hid_t indptr,
                            const Storage& storage = {}) {
  const std::string path = directory.file("typed.h5ad");
  FileMaker maker(path);
  Parts parts;
  maker.write_array("X/indptr", parts.indptr, Handle(H5Tcopy(indptr)), storage);
  maker.write_array("X/indices", parts.indices, Handle(H5Tcopy(indices)), storage);
  maker.write_array("X/data", parts.data, Handle(H5Tcopy(data)), storage);
  maker.describe_matrix("X", parts.shape);
  maker.write_frame("obs", 3);
  maker.write_frame("var", 4);
  return path;
}

TEST(H5adFileTest, ReadsNumbersOfEveryWidthAndByteOrder) {
  const TempDir directory;
  const Hdf5Session session;
  const Handle half = half_type();
  const Handle big_half(H5Tcopy(half.get()));
  H5Tset_order(big_half.get(), H5T_ORDER_BE);
  const hid_t integers[] = {H5T_STD_I8LE,  H5T_STD_U8LE,  H5T_STD_I16LE, H5T_STD_U16BE,
                            H5T_STD_I32BE, H5T_STD_U32LE, H5T_STD_I64BE, H5T_STD_U64BE};
  std::vector<hid_t> values(std::begin(integers), std::end(integers));
  for (const hid_t type : {H5T_IEEE_F32BE, H5T_IEEE_F64BE, half.get(), big_half.get()})
    values.push_back(type);
  for (const Storage& storage : {Storage{}, Storage{.chunk = 2}, Storage{.chunk = 2, .gzip = 1}}) {
    for (const hid_t type : values)
      EXPECT_EQ(read_rows(*open_h5ad(make_typed_file(directory, type, H5T_STD_I32LE, H5T_STD_I32LE,
                                                     storage)),
                          {0, 1, 2}),
                kExpected);
    for (const hid_t type : integers)
      EXPECT_EQ(
          read_rows(*open_h5ad(make_typed_file(directory, H5T_IEEE_F32LE, type, type, storage)),
                    {0, 1, 2}),
          kExpected);
  }
}

TEST(H5adFileTest, RefusesNumbersThatNoBatchHas) {
  const TempDir directory;
  const Hdf5Session session;
  expect_error(
      ErrorKind::kUnsupported,
      [&] {
        open_h5ad(make_typed_file(directory, H5T_NATIVE_LDOUBLE, H5T_STD_I32LE, H5T_STD_I32LE));
      },
      "'X/data' is of type float128");
  expect_error(
      ErrorKind::kUnsupported,
      [&] { open_h5ad(make_typed_file(directory, H5T_IEEE_F32LE, H5T_IEEE_F32LE, H5T_STD_I32LE)); },
      "X/indices");
  expect_error(
      ErrorKind::kCorruptData,
      [&] { open_h5ad(make_typed_file(directory, H5T_IEEE_F32LE, H5T_STD_I32LE, H5T_IEEE_F32LE)); },
      "'X/indptr' holds float32");
}

TEST(H5adFileTest, NumbersCellsButNotGenesWithoutNames) {
  for (const std::string nameless : {"obs", "var"})
    for (const bool is_named : {true, false}) {
      const TempDir directory;
      const std::string path = make_file(directory, {});
      {
        const Hdf5Session session;
        const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
        H5Ldelete(file.get(), (nameless + "/_index").c_str(), H5P_DEFAULT);
        if (!is_named) H5Adelete_by_name(file.get(), nameless.c_str(), "_index", H5P_DEFAULT);
      }
      if (nameless == "var")
        expect_error(ErrorKind::kCorruptData, [&] { open_h5ad(path); }, "no names");
      else if (is_named)
        expect_error(ErrorKind::kCorruptData, [&] { open_h5ad(path); }, "which is not there");
      else
        EXPECT_EQ(open_h5ad(path)->read_obs(1, 2)->column(0)->GetScalar(0).ValueOrDie()->ToString(),
                  "1");
    }
}

TEST(H5adFileTest, FingerprintFollowsFromTheBytesAlone) {
  const TempDir directory;
  const std::string path = make_file(directory, {});
  const std::uint64_t before = open_h5ad(path)->fingerprint();
  EXPECT_EQ(open_h5ad(path)->fingerprint(), before);
  auto bytes = TempDir::read_all(path);
  EXPECT_EQ(open_h5ad(directory.write("b.h5ad", bytes))->fingerprint(), before);
  directory.write("a.h5ad", bytes);  // the same bytes, written later
  EXPECT_EQ(open_h5ad(path)->fingerprint(), before);
  bytes.push_back(std::byte{0});  // behind all that opening looks at
  EXPECT_NE(open_h5ad(directory.write("c.h5ad", bytes))->fingerprint(), before);
}

// H5Z_func_t: h5py keeps the chunk's size in the third client value.
std::size_t decode_lzf_for_hdf5(unsigned, std::size_t n_values, const unsigned values[],
                                std::size_t bytes, std::size_t* buffer_bytes, void** buffer) {
  if (n_values < 3) return 0;
  auto* out = static_cast<std::byte*>(std::malloc(values[2]));
  io::decode_lzf({static_cast<const std::byte*>(*buffer), bytes}, {out, values[2]});
  std::free(*buffer);
  *buffer = out;
  *buffer_bytes = values[2];
  return values[2];
}

void teach_hdf5_lzf() {
  constexpr H5Z_filter_t kLzf = 32000;
  const H5Z_class2_t definition = {H5Z_CLASS_T_VERS,   kLzf, 0, 1, "lzf", nullptr, nullptr,
                                   decode_lzf_for_hdf5};
  ASSERT_GE(H5Zregister(&definition), 0);
}

// Row by row, through HDF5 itself.
testing::DecodedRows read_through_hdf5(const std::string& path, const std::string& layer,
                                       std::size_t n_rows) {
  const Hdf5Session session;
  // As the store has it open: HDF5 refuses another setting of locks.
  const Handle access(H5Pcreate(H5P_FILE_ACCESS));
  H5Pset_file_locking(access.get(), false, true);
  const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()));
  const bool is_old_raw = layer == "raw/X" && H5Lexists(file.get(), "raw.X", H5P_DEFAULT) > 0;
  const std::string group = is_old_raw ? "raw.X" : layer;
  const auto read = [&](const char* name, auto zero, hid_t type) {
    const Handle dataset(H5Dopen2(file.get(), (group + name).c_str(), H5P_DEFAULT));
    const Handle space(H5Dget_space(dataset.get()));
    std::vector<decltype(zero)> values(
        static_cast<std::size_t>(H5Sget_simple_extent_npoints(space.get())));
    EXPECT_GE(H5Dread(dataset.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
    return values;
  };
  testing::DecodedRows rows;
  if (const Handle object(H5Oopen(file.get(), group.c_str(), H5P_DEFAULT));
      H5Iget_type(object.get()) == H5I_DATASET) {
    const std::vector<double> values = read("", double{}, H5T_NATIVE_DOUBLE);
    for (std::size_t row = 0; row < n_rows; ++row) {
      rows.indices.emplace_back();
      rows.values.emplace_back();
      for (std::size_t column = 0; column < values.size() / n_rows; ++column) {
        const double value = values[row * (values.size() / n_rows) + column];
        if (value == 0 && !std::signbit(value)) continue;
        rows.indices.back().push_back(static_cast<std::int32_t>(column));
        rows.values.back().push_back(value);
      }
    }
    return rows;
  }
  const auto indptr = read("/indptr", std::int64_t{}, H5T_NATIVE_INT64);
  const auto indices = read("/indices", std::int32_t{}, H5T_NATIVE_INT32);
  const auto data = read("/data", double{}, H5T_NATIVE_DOUBLE);
  for (std::size_t row = 0; row + 1 < indptr.size(); ++row) {
    std::map<std::int32_t, double> entries;
    for (std::int64_t i = indptr[row]; i < indptr[row + 1]; ++i) entries[indices[i]] += data[i];
    auto& columns = rows.indices.emplace_back();
    auto& values = rows.values.emplace_back();
    for (const auto& [column, value] : entries) {
      columns.push_back(column);
      values.push_back(value);
    }
  }
  return rows;
}

TEST(H5adFileTest, ReadsRealFilesAsHdf5Does) {
  constexpr double kAnyNan = 1e301;  // which is equal to itself
  const char* chosen = std::getenv("CELLFEED_TEST_DATA");
  const std::filesystem::path data = chosen != nullptr ? chosen : "../shared/data";
  if (!std::filesystem::exists(data / "anndata")) GTEST_SKIP() << "no real data in " << data;
  teach_hdf5_lzf();
  int n_read = 0;
  for (const char* folder : {"anndata", "odd"})
    for (const auto& entry : std::filesystem::directory_iterator(data / folder))
      for (const char* layer : {"X", "raw/X", "layers/counts", "layers/spliced"}) {
        std::unique_ptr<RowStore> store;
        try {
          store = open_h5ad(entry.path().string(), {.layer = layer});
        } catch (const Error&) {
          continue;  // what is refused, and why, is tested above
        }
        if (dynamic_cast<const EntryStore*>(store.get()) != nullptr) continue;
        SCOPED_TRACE(entry.path().string() + " " + layer);
        std::vector<std::int64_t> rows(static_cast<std::size_t>(store->info().n_rows));
        std::iota(rows.begin(), rows.end(), 0);
        testing::DecodedRows ours = read_rows(*store, rows);
        testing::DecodedRows theirs = read_through_hdf5(entry.path().string(), layer, rows.size());
        for (testing::DecodedRows* some : {&ours, &theirs})
          for (auto& values : some->values)
            for (double& value : values)
              if (std::isnan(value)) value = kAnyNan;
        EXPECT_EQ(ours == theirs, true);
        ++n_read;
      }
  EXPECT_GE(n_read, 20);
}

}  // namespace
}  // namespace cellfeed::format::h5ad
