#include "cellfeed/format/shard/dense_file_layout.h"

#include <algorithm>

#include "cellfeed/base/checked_size.h"
#include "cellfeed/base/error.h"

namespace cellfeed::format::shard {
namespace {

std::string npy_header(const std::string& type, const std::string& shape) {
  std::string header("\x93NUMPY\x01\x00", 8);
  const std::int64_t dictionary_bytes = kNpyHeaderBytes - 10;
  header.push_back(static_cast<char>(dictionary_bytes));
  header.push_back('\0');
  header += fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", type, shape);
  header.resize(static_cast<std::size_t>(kNpyHeaderBytes - 1), ' ');
  header.push_back('\n');
  return header;
}

bool is_header(std::span<const std::byte> bytes, const std::string& expected) {
  return std::ranges::equal(bytes, std::as_bytes(std::span<const char>(expected)));
}

}  // namespace

DenseLayout::DenseLayout(std::int64_t rows, std::int64_t cols, const std::string& path)
    : n_rows(rows), n_cols(cols) {
  const CheckedSize row = CheckedSize(4) * cols;
  const CheckedSize end = CheckedSize(kNpyHeaderBytes) + row * rows;
  // Where the values fit, so do the checksums: no more than one a row.
  const CheckedSize most = end + kNpyHeaderBytes + CheckedSize(8) * rows;
  if (!most.fits())
    throw_error(ErrorKind::kCorruptData, path, "no file can hold float32 rows of shape ({}, {})",
                rows, cols);
  row_bytes = row.value();
  rows_per_block =
      std::max<std::int64_t>(1, kDenseBlockBytes / std::max<std::int64_t>(1, row_bytes));
  n_blocks = rows / rows_per_block + (rows % rows_per_block != 0 ? 1 : 0);
  values_end = end.value();
  checksums_begin = values_end + kNpyHeaderBytes;
  file_bytes = checksums_begin + 8 * n_blocks;
}

std::string values_header(std::int64_t n_rows, std::int64_t n_cols) {
  return npy_header("<f4", fmt::format("({}, {})", n_rows, n_cols));
}

std::string checksums_header(std::int64_t n_blocks) {
  return npy_header("<u8", fmt::format("({},)", n_blocks));
}

void check_dense_file(const DenseLayout& layout, std::span<const std::byte> values_header_bytes,
                      std::span<const std::byte> checksums_header_bytes, std::int64_t file_bytes,
                      const std::string& path) {
  if (!is_header(values_header_bytes, values_header(layout.n_rows, layout.n_cols)))
    throw_error(ErrorKind::kCorruptData, path,
                "the header is not that of float32 rows of shape ({}, {}), as the manifest says",
                layout.n_rows, layout.n_cols);
  if (file_bytes != layout.file_bytes)
    throw_error(ErrorKind::kCorruptData, path, "{}: {} bytes where its shape needs {}",
                file_bytes < layout.file_bytes ? "truncated" : "bytes behind the end", file_bytes,
                layout.file_bytes);
  if (!is_header(checksums_header_bytes, checksums_header(layout.n_blocks)))
    throw_error(ErrorKind::kCorruptData, path,
                "the header of its checksums is damaged; restore the file or convert again");
}

}  // namespace cellfeed::format::shard
