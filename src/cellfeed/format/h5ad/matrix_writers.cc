#include "cellfeed/format/h5ad/matrix_writers.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <type_traits>
#include <vector>

#include "cellfeed/base/convert_value.h"
#include "cellfeed/base/error.h"
#include "cellfeed/format/h5ad/hdf5_write.h"

namespace cellfeed::format::h5ad {
namespace {

constexpr std::int64_t kPieceValues = 65536;  // converted at once

// n values of `from` as `to`, in pieces.
void convert_pieces(const void* values, std::int64_t n, DType from_dtype, DType to_dtype,
                    const std::string& path,
                    const std::function<void(const void*, std::int64_t)>& take) {
  if (from_dtype == to_dtype) return take(values, n);
  dispatch_dtype(from_dtype, [&](auto from) {
    dispatch_dtype(to_dtype, [&](auto to) {
      using From = decltype(from);
      using To = std::conditional_t<std::is_same_v<decltype(to), bool>, std::uint8_t, decltype(to)>;
      const auto* stored = static_cast<const From*>(values);
      std::vector<To> converted;
      for (std::int64_t begin = 0; begin < n; begin += kPieceValues) {
        converted.resize(static_cast<std::size_t>(std::min(n - begin, kPieceValues)));
        for (std::size_t i = 0; i < converted.size(); ++i) {
          bool exact = true;
          converted[i] = convert_value<To>(stored[begin + static_cast<std::int64_t>(i)], &exact);
          if (to_dtype == DType::kBool) exact &= converted[i] <= To{1};
          if (!exact)
            throw_error(ErrorKind::kPrecision, path,
                        "a value does not fit {} exactly, which the matrix is of: {}; where a row "
                        "has a column twice, its entries were summed: store it in a wider type",
                        dtype_name(to_dtype), stored[begin + static_cast<std::int64_t>(i)]);
        }
        take(converted.data(), std::ssize(converted));
      }
    });
  });
}

class CsrWriter final : public MatrixWriter {
 public:
  CsrWriter(const MatrixTargets& targets, const std::string& name, std::int64_t n_cols,
            DType value_dtype, DType index_dtype)
      : MatrixWriter(targets.entries.path, n_cols),
        group_(create_group(targets.entries.file, path_, name)),
        data_(targets.entries, name + "/data", value_dtype),
        indices_(targets.entries, name + "/indices", index_dtype),
        indptr_(targets.offsets, name + "/indptr", index_dtype) {
    const std::int64_t zero = 0;
    indptr_.append({&zero, 1});
  }
  ~CsrWriter() override {
    const Hdf5Session session;
    group_ = Handle();
  }

  void finish() override {
    data_.finish();
    indices_.finish();
    indptr_.finish();
    const Hdf5Session session;
    write_encoding(group_.get(), path_, "csr_matrix", "0.1.0");
    write_integers_attribute(group_.get(), path_, "shape", {n_rows_, n_cols_});
  }

 private:
  void append_rows(const CsrSlice& entries, std::span<const std::int64_t> ends) override {
    const std::int64_t n = ends.empty() ? 0 : ends.back();
    if (indices_.dtype() == DType::kI32) {
      indices_.append(entries.indices, n);
    } else {
      const std::vector<std::int64_t> wide(entries.indices, entries.indices + n);
      indices_.append(wide.data(), n);
    }
    convert_pieces(entries.values, n, entries.dtype, data_.dtype(), path_,
                   [&](const void* values, std::int64_t count) { data_.append(values, count); });
    std::vector<std::int64_t> offsets(ends.begin(), ends.end());
    for (std::int64_t& offset : offsets) offset += nnz_;
    indptr_.append(offsets);
  }

  Handle group_;
  GrowingArray data_;
  GrowingArray indices_;
  GrowingIntegers indptr_;
};

class ArrayWriter final : public MatrixWriter {
 public:
  ArrayWriter(const WriteTarget& target, const std::string& name, std::int64_t n_cols,
              DType value_dtype)
      : MatrixWriter(target.path, n_cols), name_(name), dtype_(value_dtype) {
    const std::array<hsize_t, 2> extent{0, static_cast<hsize_t>(n_cols)};
    const std::array<hsize_t, 2> most{H5S_UNLIMITED, static_cast<hsize_t>(n_cols)};
    const std::int64_t rows = std::max<std::int64_t>(1, target.chunk_elements / n_cols);
    const std::array<hsize_t, 2> chunk{static_cast<hsize_t>(rows), static_cast<hsize_t>(n_cols)};
    const Hdf5Session session;
    const Handle space(H5Screate_simple(2, extent.data(), most.data()));
    const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
    // The same data give the same bytes.
    H5Pset_obj_track_times(properties.get(), false);
    H5Pset_chunk(properties.get(), 2, chunk.data());
    if (target.gzip_level > 0)
      H5Pset_deflate(properties.get(), static_cast<unsigned>(std::min(target.gzip_level, 9)));
    const Handle links(H5Pcreate(H5P_LINK_CREATE));
    H5Pset_create_intermediate_group(links.get(), 1);
    H5Pset_char_encoding(links.get(), H5T_CSET_UTF8);
    const Handle type = file_type(dtype_);
    dataset_ = check_written(H5Dcreate2(target.file, name.c_str(), type.get(), space.get(),
                                        links.get(), properties.get(), H5P_DEFAULT),
                             path_, "making dataset '" + name + "'");
  }
  ~ArrayWriter() override {
    const Hdf5Session session;
    dataset_ = Handle();
  }

  void finish() override {
    const Hdf5Session session;
    write_encoding(dataset_.get(), path_, "array", "0.2.0");
  }

 private:
  void append_rows(const CsrSlice& entries, std::span<const std::int64_t> ends) override {
    const auto width = static_cast<std::int64_t>(dtype_bytes(dtype_));
    std::vector<std::byte> values;
    convert_pieces(entries.values, ends.empty() ? 0 : ends.back(), entries.dtype, dtype_, path_,
                   [&](const void* converted, std::int64_t n) {
                     const auto* bytes = static_cast<const std::byte*>(converted);
                     values.insert(values.end(), bytes, bytes + n * width);
                   });
    std::vector<std::byte> dense(ends.size() * static_cast<std::size_t>(n_cols_ * width));
    std::int64_t entry = 0;
    for (std::size_t row = 0; row < ends.size(); ++row)
      for (; entry < ends[row]; ++entry)
        std::memcpy(dense.data() +
                        (static_cast<std::int64_t>(row) * n_cols_ + entries.indices[entry]) * width,
                    values.data() + entry * width, static_cast<std::size_t>(width));
    write(dense, static_cast<hsize_t>(ends.size()));
  }

  void write(const std::vector<std::byte>& dense, hsize_t n) {
    if (n == 0) return;
    const std::string operation = "writing '" + name_ + "'";
    const auto n_cols = static_cast<hsize_t>(n_cols_);
    const std::array<hsize_t, 2> extent{static_cast<hsize_t>(n_rows_) + n, n_cols};
    const std::array<hsize_t, 2> start{static_cast<hsize_t>(n_rows_), 0};
    const std::array<hsize_t, 2> count{n, n_cols};
    const Hdf5Session session;
    check_write(H5Dset_extent(dataset_.get(), extent.data()), path_, operation);
    const Handle space(H5Dget_space(dataset_.get()));
    H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr);
    const Handle memory(H5Screate_simple(2, count.data(), nullptr));
    const Handle type = memory_type(dtype_);
    check_write(
        H5Dwrite(dataset_.get(), type.get(), memory.get(), space.get(), H5P_DEFAULT, dense.data()),
        path_, operation);
  }

  std::string name_;
  DType dtype_;
  Handle dataset_;
};

}  // namespace

void MatrixWriter::append(const CsrSlice& rows) {
  if (rows.indptr.empty()) throw_invalid("indptr must have one entry more than rows: it is empty");
  const std::int64_t first = rows.indptr.front();
  std::vector<std::int64_t> ends;
  ends.reserve(rows.indptr.size());
  for (std::size_t i = 1; i < rows.indptr.size(); ++i) {
    if (rows.indptr[i] < rows.indptr[i - 1])
      throw_invalid("indptr must not decrease: row {}, {} to {}", i - 1, rows.indptr[i - 1],
                    rows.indptr[i]);
    ends.push_back(rows.indptr[i] - first);
  }
  CsrSlice entries = rows;
  entries.indices = rows.indices + first;
  entries.values = static_cast<const std::byte*>(rows.values) +
                   first * static_cast<std::int64_t>(dtype_bytes(rows.dtype));
  const std::int64_t n = ends.empty() ? 0 : ends.back();
  check_columns(entries.indices, n);
  append_rows(entries, ends);
  nnz_ += n;
  n_rows_ += std::ssize(ends);
}

void MatrixWriter::check_columns(const std::int32_t* columns, std::int64_t n) const {
  std::int32_t low = 0;
  std::int32_t high = -1;
  for (std::int64_t i = 0; i < n; ++i) {
    low = std::min(low, columns[i]);
    high = std::max(high, columns[i]);
  }
  if (low < 0 || high >= n_cols_)
    throw_error(ErrorKind::kInvalidArgument, path_,
                "a column index is out of range: {}, columns {}", low < 0 ? low : high, n_cols_);
}

std::unique_ptr<MatrixWriter> make_csr_writer(const MatrixTargets& targets, const std::string& name,
                                              std::int64_t n_cols, DType value_dtype,
                                              DType index_dtype) {
  return std::make_unique<CsrWriter>(targets, name, n_cols, value_dtype, index_dtype);
}

std::unique_ptr<MatrixWriter> make_array_writer(const WriteTarget& target, const std::string& name,
                                                std::int64_t n_cols, DType value_dtype) {
  return std::make_unique<ArrayWriter>(target, name, n_cols, value_dtype);
}

}  // namespace cellfeed::format::h5ad
