// TenxStore: the conformance suite on files made with HDF5 itself.
#include "cellfeed/format/tenx/tenx_store.h"

#include <gtest/gtest.h>
#include <hdf5.h>

#include <vector>

#include "cellfeed/testing/hdf5_oracle.h"
#include "cellfeed/testing/kept_store.h"
#include "cellfeed/testing/memory_file_system.h"
#include "cellfeed/testing/row_store_conformance.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::format::tenx {
namespace {

using testing::OracleId;

// One matrix of features x barcodes by columns, as Cell Ranger 3 writes it.
class TenxMaker {
 public:
  TenxMaker(const std::string& path, hsize_t chunk)
      : file_(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)), chunk_(chunk) {
    for (const char* group : {"/matrix", "/matrix/features"})
      OracleId(H5Gcreate2(file_, group, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  }
  void add(const std::string& name, hid_t stored, hid_t memory, std::size_t n, const void* values) {
    const hsize_t length = n;
    const OracleId space(H5Screate_simple(1, &length, nullptr));
    const OracleId properties(H5Pcreate(H5P_DATASET_CREATE));
    const hsize_t chunk = std::min<hsize_t>(chunk_, length);
    if (chunk > 0) {
      H5Pset_chunk(properties, 1, &chunk);
      H5Pset_deflate(properties, 1);
    }
    const OracleId dataset(H5Dcreate2(file_, ("/matrix/" + name).c_str(), stored, space,
                                      H5P_DEFAULT, properties, H5P_DEFAULT));
    ASSERT_GE(H5Dwrite(dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), 0);
  }
  void add_texts(const std::string& name, const std::vector<std::string>& texts) {
    constexpr std::size_t kWidth = 24;
    const OracleId type(H5Tcopy(H5T_C_S1));
    H5Tset_size(type, kWidth);
    std::vector<char> bytes(texts.size() * kWidth + 1);
    for (std::size_t i = 0; i < texts.size(); ++i)
      texts[i].copy(bytes.data() + i * kWidth, kWidth - 1);
    add(name, type, type, texts.size(), bytes.data());
  }

 private:
  OracleId file_;
  hsize_t chunk_;
};

std::vector<std::string> numbered(const std::string& prefix, std::int64_t n) {
  std::vector<std::string> texts;
  for (std::int64_t i = 0; i < n; ++i) texts.push_back(prefix + std::to_string(i));
  return texts;
}

hid_t hdf5_type(DType dtype) {
  switch (dtype) {
    case DType::kU8:
    case DType::kBool:
      return H5T_NATIVE_UINT8;
    case DType::kI8:
      return H5T_NATIVE_INT8;
    case DType::kU16:
      return H5T_NATIVE_UINT16;
    case DType::kI16:
      return H5T_NATIVE_INT16;
    case DType::kU32:
      return H5T_NATIVE_UINT32;
    case DType::kI32:
      return H5T_NATIVE_INT32;
    case DType::kU64:
      return H5T_NATIVE_UINT64;
    case DType::kI64:
      return H5T_NATIVE_INT64;
    case DType::kF32:
      return H5T_NATIVE_FLOAT;
    default:
      return H5T_NATIVE_DOUBLE;
  }
}

void write_tenx(const std::string& path, const matrix::CsrBlock& block, DType stored,
                hsize_t chunk) {
  TenxMaker maker(path, chunk);
  const auto nnz = static_cast<std::size_t>(block.indptr[block.n_rows]);
  maker.add("indptr", H5T_STD_I64LE, H5T_NATIVE_INT64, static_cast<std::size_t>(block.n_rows) + 1,
            block.indptr.data());
  maker.add("indices", H5T_STD_I64LE, H5T_NATIVE_INT32, nnz, block.indices.data());
  maker.add("data", hdf5_type(stored), hdf5_type(matrix::value_buffer_dtype(block.values)), nnz,
            matrix::value_buffer_data(block.values));
  const std::int64_t shape[] = {block.n_cols, block.n_rows};
  maker.add("shape", H5T_STD_I32LE, H5T_NATIVE_INT64, 2, shape);
  maker.add_texts("barcodes", numbered("cell_", block.n_rows));
  maker.add_texts("features/name", numbered("gene_", block.n_cols));
  maker.add_texts("features/id", numbered("id_", block.n_cols));
  maker.add_texts(
      "features/feature_type",
      std::vector<std::string>(static_cast<std::size_t>(block.n_cols), "Gene Expression"));
}

testing::RowStoreFactory tenx_on_disk(hsize_t chunk, std::int64_t cache_bytes) {
  return [=](const matrix::CsrBlock& block, DType stored) {
    auto directory = std::make_unique<testing::TempDir>();
    const std::string path = directory->file("a.h5");
    write_tenx(path, block, stored, chunk);
    auto store = open_tenx(std::make_unique<H5File>(path), {.cache_bytes = cache_bytes});
    return std::make_unique<testing::KeptStore>(std::move(directory), std::move(store));
  };
}

testing::RowStoreFactory tenx_in_memory(hsize_t chunk, std::int64_t cache_bytes) {
  return [=](const matrix::CsrBlock& block, DType stored) {
    const testing::TempDir directory;
    auto place = std::make_shared<testing::MemoryPlace>();
    write_tenx(directory.file("a.h5"), block, stored, chunk);
    const std::string path = place->take(directory.file("a.h5"));
    auto store = open_tenx(std::make_unique<H5File>(path), {.cache_bytes = cache_bytes});
    return std::make_unique<testing::KeptStore>(std::move(place), std::move(store));
  };
}

const bool kTenxConforms[] = {
    testing::register_row_store_conformance("tenx_unmapped_gzip", tenx_in_memory(64, 0)),
    testing::register_row_store_conformance("tenx_unmapped_plain", tenx_in_memory(0, 0)),
    testing::register_row_store_conformance("tenx_gzip", tenx_on_disk(64, 1 << 20)),
    testing::register_row_store_conformance("tenx_gzip_no_cache", tenx_on_disk(64, 0)),
    testing::register_row_store_conformance("tenx_plain", tenx_on_disk(0, 0)),
};

}  // namespace
}  // namespace cellfeed::format::tenx
