#include "cellfeed/loader/dense_sink.h"

#include "cellfeed/loader/slice_decoder.h"
#include "cellfeed/transform/simd/row_kernels.h"

namespace cellfeed::loader {

std::int64_t DenseSink::plan_bytes(const Recycler& recycler, const Rows& rows) const {
  return recycler.taken_bytes(rows.size() * n_cols_ *
                              static_cast<std::int64_t>(dtype_bytes(dtype_)));
}

matrix::Block DenseSink::begin(Recycler& recycler, const Rows& rows) const {
  const auto size = static_cast<std::size_t>(rows.size() * n_cols_);
  return matrix::DenseBlock{rows.size(), n_cols_, recycler.take_values(dtype_, size, rows.matrix)};
}

void DenseSink::take(SliceDecoder& decoder, matrix::Block& block) const {
  auto& dense = std::get<matrix::DenseBlock>(block);
  decoder.for_each_step([&](const Piece& piece) { return decoder.stays_dense(piece); },
                        [&](const Piece& step) {
                          if (decoder.stays_dense(step))
                            decoder.move_dense(step, matrix::value_buffer_data(dense.values),
                                               dtype_, n_cols_);
                          else
                            scatter(decoder, step, dense);
                        });
}

// What is not stored dense, or transformed.
void DenseSink::scatter(SliceDecoder& decoder, const Piece& step, matrix::DenseBlock& block) const {
  const std::size_t width = dtype_bytes(dtype_);
  const auto n_cols = static_cast<std::size_t>(n_cols_);
  const auto stores =
      transform::choose_row_stores(block.n_rows, n_cols_ * static_cast<std::int64_t>(width));
  auto* values = static_cast<std::byte*>(matrix::value_buffer_data(block.values));
  const auto order = decoder.order_for_scatter(step);
  decoder.decode_apart(step, dtype_, order, [&](std::int64_t position, const transform::Row& row) {
    transform::scatter_row(std::span(row.indices, static_cast<std::size_t>(row.size)), row.values,
                           width, values + static_cast<std::size_t>(position) * n_cols * width,
                           n_cols, stores, order);
  });
}

}  // namespace cellfeed::loader
