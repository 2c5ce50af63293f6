#include "cellfeed/loader/csr_sink.h"

#include <limits>

#include "cellfeed/base/error.h"
#include "cellfeed/loader/matrix_window.h"
#include "cellfeed/loader/slice_decoder.h"
#include "cellfeed/transform/simd/row_kernels.h"

namespace cellfeed::loader {

std::int64_t CsrSink::plan_bytes(const Recycler& recycler, const Rows& rows) const {
  const std::int64_t nnz = rows.window.max_nnz(rows.batch);
  return recycler.taken_bytes(nnz * static_cast<std::int64_t>(dtype_bytes(dtype_))) +
         recycler.taken_bytes(nnz * 4) + rows.size() * 8;
}

matrix::Block CsrSink::begin(Recycler& recycler, const Rows& rows) const {
  return begin_csr(recycler, rows);
}

matrix::CsrBlock CsrSink::begin_csr(Recycler& recycler, const Rows& rows) const {
  const std::int64_t max_nnz = rows.window.max_nnz(rows.batch);
  if (max_nnz > std::numeric_limits<std::int32_t>::max())
    throw_invalid(
        "one batch would hold 2^31 or more non-zeros; make batch_size smaller: {} rows, {}",
        rows.size(), max_nnz);
  const auto nnz = static_cast<std::size_t>(max_nnz);
  matrix::Buffer<std::int64_t> indptr(static_cast<std::size_t>(rows.size()) + 1);
  rows.window.place_rows(rows.batch, indptr.span());
  return {rows.size(), n_cols_, std::move(indptr), recycler.take_indices(nnz, rows.matrix),
          recycler.take_values(dtype_, nnz, rows.matrix)};
}

bool CsrSink::takes_whole(const SliceDecoder& decoder, const Piece& piece) const {
  return decoder.is_identity(piece) || decoder.moves_in_order(piece);
}

void CsrSink::take(SliceDecoder& decoder, const Piece& step, matrix::Block& block) const {
  take_csr(decoder, step, std::get<matrix::CsrBlock>(block));
}

void CsrSink::take_csr(SliceDecoder& decoder, const Piece& step, matrix::CsrBlock& block) const {
  std::int32_t* indices = block.indices.data();
  void* values = matrix::value_buffer_data(block.values);
  if (decoder.moves_in_order(step)) return decoder.decode_moved(step, indices, values, dtype_);
  const bool is_identity = decoder.is_identity(step);
  if (!is_identity && decoder.goes_past_caches()) return take_past_caches(decoder, step, block);
  decoder.decode(step, indices, values, dtype_, is_identity);
  if (is_identity) return;
  decoder.change_rows(step, indices, values, dtype_, transform::EntryOrder::kIncreasing,
                      [](std::int64_t, const transform::Row&) {});
}

// Rows are changed in the nearest caches, and go to memory from there in whole lines: a store of a
// line that is in no cache has it read first.
void CsrSink::take_past_caches(SliceDecoder& decoder, const Piece& step,
                               matrix::CsrBlock& block) const {
  const std::size_t width = dtype_bytes(dtype_);
  auto* values = static_cast<std::byte*>(matrix::value_buffer_data(block.values));
  decoder.decode_apart(step, dtype_, transform::EntryOrder::kIncreasing,
                       [&](std::int64_t position, const transform::Row& row) {
                         const auto place = static_cast<std::size_t>(block.indptr[position]);
                         const auto n = static_cast<std::size_t>(row.size);
                         transform::copy_past_caches(row.indices, n * 4,
                                                     block.indices.data() + place);
                         transform::copy_past_caches(row.values, n * width, values + place * width);
                       });
  transform::publish_copies();
}

void CsrSink::finish(Recycler&, const Rows& rows, matrix::Block& block) const {
  finish_csr(rows, std::get<matrix::CsrBlock>(block));
}

void CsrSink::finish_csr(const Rows& rows, matrix::CsrBlock& block) const {
  rows.window.compact(rows.batch, block);
}

}  // namespace cellfeed::loader
