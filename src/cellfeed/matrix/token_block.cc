#include "cellfeed/matrix/token_block.h"

#include <cstring>

namespace cellfeed::matrix {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t append(std::size_t* end, std::size_t bytes) {
  const std::size_t begin = *end;
  *end += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return begin;
}

}  // namespace

TokenBlock::Layout::Layout(std::int64_t n_rows, std::int64_t width, TokenTargets targets) {
  const auto n = static_cast<std::size_t>(n_rows * width);
  ids = append(&bytes, n * sizeof(std::int32_t));
  values = append(&bytes, n * sizeof(float));
  mask = append(&bytes, n);
  lengths = append(&bytes, static_cast<std::size_t>(n_rows) * sizeof(std::int32_t));
  labels = append(&bytes, targets.has_labels ? n * sizeof(std::int64_t) : 0);
  target_values = append(&bytes, targets.has_values ? n * sizeof(float) : 0);
}

void TokenBlock::narrow(std::int64_t new_width) {
  if (new_width == width) return;
  const auto move = [&](std::size_t offset, std::size_t item_bytes) {
    std::byte* rows_at = memory.data() + offset;
    const std::size_t bytes = static_cast<std::size_t>(new_width) * item_bytes;
    for (std::int64_t row = 1; row < n_rows; ++row)
      std::memmove(rows_at + static_cast<std::size_t>(row) * bytes,
                   rows_at + static_cast<std::size_t>(row * width) * item_bytes, bytes);
  };
  move(layout.ids, sizeof(std::int32_t));
  move(layout.values, sizeof(float));
  move(layout.mask, 1);
  if (targets.has_labels) move(layout.labels, sizeof(std::int64_t));
  if (targets.has_values) move(layout.target_values, sizeof(float));
  width = new_width;
}

}  // namespace cellfeed::matrix
