#include "cellfeed/series/row_bytes.h"

#include <algorithm>

namespace cellfeed::series {

RowBytes::RowBytes(const io::ByteSource& source, std::int64_t row_bytes,
                   std::span<const Extent> rows)
    : row_bytes_(row_bytes) {
  if (is_mapped(source)) {
    mapped_ = source.map().data();
    return;
  }
  begin_reads(source, rows);
  reads_.wait();
}

RowBytes RowBytes::begin(const io::ByteSource& source, std::int64_t row_bytes,
                         std::span<const Extent> rows) {
  RowBytes bytes(row_bytes);
  bytes.begin_reads(source, rows);
  return bytes;
}

void RowBytes::begin_reads(const io::ByteSource& source, std::span<const Extent> rows) {
  read_.assign(rows.begin(), rows.end());
  std::ranges::sort(read_, {}, &Extent::begin);
  std::size_t n = 0;
  for (const Extent& extent : read_) {
    if (n > 0 && extent.begin <= read_[n - 1].end)
      read_[n - 1].end = std::max(read_[n - 1].end, extent.end);
    else
      read_[n++] = extent;
  }
  read_.resize(n);
  for (const Extent& extent : read_)
    reads_.add(source, {extent.begin * row_bytes_, (extent.end - extent.begin) * row_bytes_});
  reads_.begin();
}

const std::byte* RowBytes::read_row(std::int64_t row) const {
  const auto after = std::ranges::upper_bound(read_, row, {}, &Extent::begin);
  const auto i = static_cast<std::size_t>(after - read_.begin()) - 1;
  return reads_.bytes(i).data() + (row - read_[i].begin) * row_bytes_;
}

}  // namespace cellfeed::series
