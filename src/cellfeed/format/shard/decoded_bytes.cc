#include "cellfeed/format/shard/decoded_bytes.h"

#include <limits>

#include "cellfeed/base/checked_size.h"

namespace cellfeed::format::shard {
namespace {

// Buffers that grow are there twice, and a page beside what is made of it.
constexpr std::int64_t kDecodingFactor = 4;

CheckedSize written_bytes(std::int64_t file_bytes, std::int64_t n_rows, std::int64_t n_cols) {
  constexpr std::int64_t kAnyTable = 32 << 20;
  constexpr std::int64_t kPerFileByte = 4;
  constexpr std::int64_t kPerValue = 64;
  return CheckedSize(kAnyTable) + CheckedSize(file_bytes) * kPerFileByte +
         CheckedSize(n_rows) * n_cols * kPerValue;
}

std::int64_t value_or_most(CheckedSize size) {
  return size.fits() ? size.value() : std::numeric_limits<std::int64_t>::max();
}

}  // namespace

std::int64_t max_written_bytes(std::int64_t file_bytes, std::int64_t n_rows, std::int64_t n_cols) {
  return value_or_most(written_bytes(file_bytes, n_rows, n_cols));
}

std::int64_t max_decoded_bytes(std::int64_t file_bytes, std::int64_t n_rows, std::int64_t n_cols) {
  return value_or_most(written_bytes(file_bytes, n_rows, n_cols) * kDecodingFactor);
}

}  // namespace cellfeed::format::shard
