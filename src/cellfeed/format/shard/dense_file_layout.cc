#include "cellfeed/format/shard/dense_file_layout.h"

#include "cellfeed/base/error.h"

namespace cellfeed::format::shard {

std::string npy_header(std::int64_t n_rows, std::int64_t n_cols) {
  std::string header("\x93NUMPY\x01\x00", 8);
  const std::int64_t dictionary_bytes = kNpyHeaderBytes - 10;
  header.push_back(static_cast<char>(dictionary_bytes));
  header.push_back('\0');
  header += fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", n_rows,
                        n_cols);
  header.resize(static_cast<std::size_t>(kNpyHeaderBytes - 1), ' ');
  header.push_back('\n');
  return header;
}

std::int64_t parse_npy_header(std::span<const std::byte> bytes, std::int64_t n_rows,
                              std::int64_t n_cols, std::int64_t file_bytes,
                              const std::string& path) {
  const std::string expected = npy_header(n_rows, n_cols);
  const std::string found(reinterpret_cast<const char*>(bytes.data()),
                          std::min(bytes.size(), expected.size()));
  if (found != expected)
    throw_error(ErrorKind::kCorruptData, path,
                "the header is not that of float32 rows of shape ({}, {}), as the manifest says",
                n_rows, n_cols);
  const std::int64_t expected_bytes = kNpyHeaderBytes + 4 * n_rows * n_cols;
  if (file_bytes != expected_bytes)
    throw_error(ErrorKind::kCorruptData, path, "{}: {} bytes where its shape needs {}",
                file_bytes < expected_bytes ? "truncated" : "bytes behind the end", file_bytes,
                expected_bytes);
  return kNpyHeaderBytes;
}

}  // namespace cellfeed::format::shard
