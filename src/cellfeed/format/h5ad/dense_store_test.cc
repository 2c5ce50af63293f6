// Dense matrices of .h5ad files: the conformance suite on every storage layout, and what a dense
// matrix has that a sparse one has not.
#include <gtest/gtest.h>
#include <hdf5.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "cellfeed/format/h5ad/h5ad_store.h"
#include "cellfeed/format/h5ad/h5ad_writer.h"
#include "cellfeed/format/h5ad/hdf5_api.h"
#include "cellfeed/format/h5ad/hdf5_write.h"
#include "cellfeed/testing/kept_store.h"
#include "cellfeed/testing/memory_file_system.h"
#include "cellfeed/testing/row_store_conformance.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::format::h5ad {
namespace {

using testing::expect_error;
using testing::TempDir;

struct DenseStorage {
  std::vector<hsize_t> chunk = {};  // none: contiguous
  bool is_compact = false;
  int gzip = 0;
  bool shuffle = false;
  bool fletcher32 = false;
};

// Puts a dense X of this type in the place of the sparse one. Returns the dataset.
Handle replace_x(const Handle& file, const Handle& type, const std::vector<hsize_t>& shape,
                 const DenseStorage& storage) {
  H5Ldelete(file.get(), "X", H5P_DEFAULT);
  const std::vector<hsize_t> unlimited(shape.size(), H5S_UNLIMITED);
  const bool is_chunked = !storage.chunk.empty();
  const Handle space(H5Screate_simple(static_cast<int>(shape.size()), shape.data(),
                                      is_chunked ? unlimited.data() : nullptr));
  const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
  if (is_chunked)
    H5Pset_chunk(properties.get(), static_cast<int>(shape.size()), storage.chunk.data());
  if (storage.is_compact) H5Pset_layout(properties.get(), H5D_COMPACT);
  if (storage.shuffle) H5Pset_shuffle(properties.get());
  if (storage.gzip > 0) H5Pset_deflate(properties.get(), static_cast<unsigned>(storage.gzip));
  if (storage.fletcher32) H5Pset_fletcher32(properties.get());
  return Handle(H5Dcreate2(file.get(), "X", type.get(), space.get(), H5P_DEFAULT, properties.get(),
                           H5P_DEFAULT));
}

// obs and var as our writer makes them.
void write_frames(const std::string& path, const matrix::CsrBlock& block) {
  std::filesystem::remove(path);
  H5adWriterOptions options;
  options.value_dtype = matrix::value_buffer_dtype(block.values);
  H5adWriter writer(path, block.n_cols, options);
  writer.append(block);
  writer.finish(nullptr);
}

std::string write_dense(const std::string& path, const matrix::CsrBlock& block, DType stored,
                        const DenseStorage& storage) {
  write_frames(path, block);
  const Hdf5Session session;
  const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
  const std::vector<hsize_t> shape{static_cast<hsize_t>(block.n_rows),
                                   static_cast<hsize_t>(block.n_cols)};
  const Handle dataset = replace_x(file, file_type(stored), shape, storage);
  std::visit(
      [&](const auto& values) {
        using T = std::remove_cvref_t<decltype(values[0])>;
        std::vector<T> rows(static_cast<std::size_t>(block.n_rows * block.n_cols));
        for (std::int64_t row = 0; row < block.n_rows; ++row)
          for (std::int64_t i = block.indptr[row]; i < block.indptr[row + 1]; ++i)
            rows[row * block.n_cols + block.indices[i]] = values[i];
        const Handle memory = memory_type(dtype_of<T>());
        if (!rows.empty())
          H5Dwrite(dataset.get(), memory.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, rows.data());
      },
      block.values);
  return path;
}

testing::RowStoreFactory dense_on_disk(DenseStorage storage, std::int64_t cache_bytes = 64 << 20) {
  return [=](const matrix::CsrBlock& block, DType stored) {
    auto directory = std::make_unique<TempDir>();
    const auto path = write_dense(directory->file("a.h5ad"), block, stored, storage);
    auto store = open_h5ad(path, {.cache_bytes = cache_bytes});
    return std::make_unique<testing::KeptStore>(std::move(directory), std::move(store));
  };
}

const DenseStorage kDenseGzip{.chunk = {16, 64}, .gzip = 4, .shuffle = true, .fletcher32 = true};

testing::RowStoreFactory dense_in_memory(DenseStorage storage,
                                         std::int64_t cache_bytes = 64 << 20) {
  return [=](const matrix::CsrBlock& block, DType stored) {
    const TempDir directory;
    auto place = std::make_shared<testing::MemoryPlace>();
    const std::string path =
        place->take(write_dense(directory.file("a.h5ad"), block, stored, storage));
    auto store = open_h5ad(path, {.cache_bytes = cache_bytes});
    return std::make_unique<testing::KeptStore>(std::move(place), std::move(store));
  };
}

const bool kDenseConforms[] = {
    testing::register_row_store_conformance("h5ad_dense_unmapped", dense_in_memory({})),
    testing::register_row_store_conformance("h5ad_dense_unmapped_no_cache", dense_in_memory({}, 0)),
    testing::register_row_store_conformance("h5ad_dense_unmapped_chunks",
                                            dense_in_memory({.chunk = {7, 40}}, 0)),
    testing::register_row_store_conformance("h5ad_dense_unmapped_gzip",
                                            dense_in_memory(kDenseGzip, 0)),
    testing::register_row_store_conformance("h5ad_dense", dense_on_disk({})),
    testing::register_row_store_conformance("h5ad_dense_chunks", dense_on_disk({.chunk = {7, 40}})),
    // A row lies in as many chunks as it has columns.
    testing::register_row_store_conformance("h5ad_dense_columns",
                                            dense_on_disk({.chunk = {64, 1}})),
    testing::register_row_store_conformance("h5ad_dense_gzip", dense_on_disk(kDenseGzip)),
    testing::register_row_store_conformance("h5ad_dense_gzip_no_cache",
                                            dense_on_disk(kDenseGzip, 0)),
    testing::register_row_store_conformance("h5ad_dense_gzip_small_cache",
                                            dense_on_disk(kDenseGzip, 20000)),
    testing::register_row_store_conformance("h5ad_dense_gzip_large_chunks",
                                            dense_on_disk({.chunk = {1000, 2000}, .gzip = 1}, 0)),
};

TEST(DenseStoreTest, ReadsCompactData) {
  const TempDir directory;
  const auto block = testing::random_csr({.n_rows = 30, .n_cols = 40});
  const auto store = open_h5ad(
      write_dense(directory.file("a.h5ad"), block, DType::kF32, {.is_compact = true}), {});
  testing::conformance::expect_rows(*store, block, {29, 3, 3, 0});
}

TEST(DenseStoreTest, SaysWhatItIs) {
  const TempDir directory;
  const auto block = testing::random_csr({.n_rows = 30, .n_cols = 40});
  const auto store = open_h5ad(
      write_dense(directory.file("a.h5ad"), block, DType::kI16, {.chunk = {8, 16}, .gzip = 1}), {});
  const StoreInfo& info = store->info();
  EXPECT_TRUE(info.is_dense);
  EXPECT_EQ(info.nnz, -1);
  EXPECT_EQ(info.value_dtype, DType::kI16);
  EXPECT_EQ(info.compression, "gzip");
  EXPECT_EQ(info.rows_per_chunk, 8);
  EXPECT_EQ(info.inflated_bytes, 4 * 3 * 8 * 16 * 2);
  EXPECT_GE(info.scratch_bytes, 8 * 16 * 2);
}

// What nobody wrote has the fill value, which is no zero: chunks, and all of a dataset.
TEST(DenseStoreTest, FillsWhatWasNeverWritten) {
  const TempDir directory;
  const std::string path = directory.file("a.h5ad");
  const auto block = testing::random_csr({.n_rows = 10, .n_cols = 9});
  const float fill = -1.5F;
  for (const DenseStorage& storage :
       {DenseStorage{}, DenseStorage{.chunk = {4, 4}}, DenseStorage{.chunk = {4, 4}, .gzip = 1}}) {
    write_frames(path, block);
    {
      const Hdf5Session session;
      const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
      H5Ldelete(file.get(), "X", H5P_DEFAULT);
      const hsize_t shape[] = {10, 9};
      const Handle space(H5Screate_simple(2, shape, nullptr));
      const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
      H5Pset_fill_value(properties.get(), H5T_NATIVE_FLOAT, &fill);
      if (!storage.chunk.empty()) H5Pset_chunk(properties.get(), 2, storage.chunk.data());
      if (storage.gzip > 0) H5Pset_deflate(properties.get(), 1);
      const Handle dataset(H5Dcreate2(file.get(), "X", H5T_IEEE_F32LE, space.get(), H5P_DEFAULT,
                                      properties.get(), H5P_DEFAULT));
      if (!storage.chunk.empty()) {
        const hsize_t begin[] = {5, 5}, one[] = {1, 1};
        H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, begin, nullptr, one, nullptr);
        const Handle memory(H5Screate_simple(1, one, nullptr));
        const float value = 8;
        H5Dwrite(dataset.get(), H5T_NATIVE_FLOAT, memory.get(), space.get(), H5P_DEFAULT, &value);
      }
    }
    for (const std::int64_t cache_bytes : {std::int64_t{0}, std::int64_t{1} << 20}) {
      const auto store = open_h5ad(path, {.cache_bytes = cache_bytes});
      const std::vector<std::int64_t> rows{9, 5};
      const auto fetched = fetch_rows(*store, rows);
      auto values = testing::decode_dense_rows(*fetched, 9, DType::kF32, {}, false);
      EXPECT_EQ(values[0], std::vector<double>(9, fill));
      EXPECT_EQ(values[1][5], storage.chunk.empty() ? fill : 8);
      values[1][5] = fill;
      EXPECT_EQ(values[1], std::vector<double>(9, fill));
    }
  }
}

TEST(DenseStoreTest, KeepsNegativeZerosAndNan) {
  const TempDir directory;
  auto block = testing::random_csr(
      {.n_rows = 1, .n_cols = 6, .density = 1, .empty_rows = 0, .explicit_zeros = 0});
  auto& values = std::get<matrix::Buffer<float>>(block.values);
  values[1] = -0.0F;
  values[2] = std::numeric_limits<float>::quiet_NaN();
  values[4] = 0;
  const auto store = open_h5ad(write_dense(directory.file("a.h5ad"), block, DType::kF32, {}), {});
  const std::vector<std::int64_t> rows{0};
  const auto fetched = fetch_rows(*store, rows);
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    const auto sparse = testing::decode_rows(*fetched, dtype);
    EXPECT_EQ(sparse.indices[0], (std::vector<std::int32_t>{0, 1, 2, 3, 5}));
    EXPECT_TRUE(std::signbit(sparse.values[0][1]));
    EXPECT_TRUE(std::isnan(sparse.values[0][2]));
    const auto dense = testing::decode_dense_rows(*fetched, 6, dtype, {}, false);
    EXPECT_TRUE(std::signbit(dense[0][1]));
    EXPECT_TRUE(std::isnan(dense[0][2]));
    EXPECT_FALSE(std::signbit(dense[0][4]));
  }
}

TEST(DenseStoreTest, RefusesToLosePrecisionInDenseRowsToo) {
  const TempDir directory;
  auto block = testing::random_csr({.n_rows = 3, .empty_rows = 0, .dtype = DType::kI64});
  std::get<matrix::Buffer<std::int64_t>>(block.values)[0] = (std::int64_t{1} << 53) + 1;
  const auto store = open_h5ad(write_dense(directory.file("a.h5ad"), block, DType::kI64, {}), {});
  const std::vector<std::int64_t> rows{0};
  const auto fetched = fetch_rows(*store, rows);
  const std::vector<std::int32_t> without_it{299};
  for (const auto& columns : {std::vector<std::int32_t>{}, without_it})
    expect_error(
        ErrorKind::kPrecision,
        [&] { testing::decode_dense_rows(*fetched, 300, DType::kF64, columns, false); },
        "row 0, value 9007199254740993");
}

void expect_shape_refused(const std::vector<hsize_t>& shape, const DenseStorage& storage,
                          ErrorKind kind, const std::string& text) {
  const TempDir directory;
  const std::string path = directory.file("a.h5ad");
  write_frames(path, testing::random_csr({.n_rows = 10, .n_cols = 9}));
  {
    const Hdf5Session session;
    const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
    ASSERT_TRUE(replace_x(file, file_type(DType::kF32), shape, storage).get() >= 0);
  }
  expect_error(kind, [&] { open_h5ad(path); }, text);
}

TEST(DenseStoreTest, RefusesShapesThatAreNoMatrixOfTheseCells) {
  constexpr hsize_t kCells = hsize_t{1} << 40, kGenes = hsize_t{1} << 20;
  expect_shape_refused({10}, {}, ErrorKind::kCorruptData, "must have 2 dimensions: 'X' has 1");
  expect_shape_refused({10, 9, 2}, {}, ErrorKind::kCorruptData,
                       "must have 2 dimensions: 'X' has 3");
  expect_shape_refused({10, hsize_t{1} << 32}, {.chunk = {1, 1 << 20}}, ErrorKind::kUnsupported,
                       "more than 2^31-1 columns");
  expect_shape_refused({kCells, kGenes}, {.chunk = {1 << 10, 1 << 10}}, ErrorKind::kCorruptData,
                       "more chunks than the file has bytes");
  // The file says that there are as many cells; obs says that there are not.
  expect_shape_refused({kCells, 9}, {.chunk = {1 << 20, 9}, .gzip = 1}, ErrorKind::kCorruptData,
                       "obs");
  expect_shape_refused({10, kGenes}, {.chunk = {10, 1 << 10}}, ErrorKind::kCorruptData, "var");
}

}  // namespace
}  // namespace cellfeed::format::h5ad
