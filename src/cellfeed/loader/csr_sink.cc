#include "cellfeed/loader/csr_sink.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/loader/matrix_window.h"
#include "cellfeed/loader/slice_decoder.h"
#include "cellfeed/transform/simd/row_kernels.h"

namespace cellfeed::loader {
namespace {

// Genes that are chosen have more entries than others: so many times their share of the columns.
constexpr double kGuess = 2;
// Batches differ in what they keep.
constexpr double kSlack = 1.1;

}  // namespace

CsrSink::CsrSink(const RowPipeline& pipeline, DType dtype, int threads)
    : n_cols_(pipeline.genes().size()),
      dtype_(dtype),
      drops_columns_(pipeline.drops_columns()),
      kept_share_(kGuess * pipeline.kept_columns()),
      kept_(std::make_unique<KeptRowsPool>(static_cast<std::size_t>(threads))) {}

std::int64_t CsrSink::plan_bytes(const Recycler& recycler, const Rows& rows) const {
  return bytes_of(recycler, room_of(rows)) + rows.size() * 8;
}

std::int64_t CsrSink::bytes_of(const Recycler& recycler, std::int64_t nnz) const {
  return recycler.taken_bytes(nnz * static_cast<std::int64_t>(dtype_bytes(dtype_))) +
         recycler.taken_bytes(nnz * 4);
}

// Asked for more than once, and answered alike.
std::int64_t CsrSink::room_of(const Rows& rows) const {
  const std::int64_t max_nnz = rows.window.max_nnz(rows.batch);
  if (!drops_columns_) return max_nnz;
  SliceOrder& order = rows.window.order(rows.batch);
  const double expected = kSlack * kept_share_.load() * static_cast<double>(max_nnz);
  if (order.room() == 0) order.set_room(1 + std::min(max_nnz, static_cast<std::int64_t>(expected)));
  return order.room();
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
  const auto nnz = static_cast<std::size_t>(room_of(rows));
  matrix::Buffer<std::int64_t> indptr(static_cast<std::size_t>(rows.size()) + 1);
  if (!drops_columns_) rows.window.place_rows(rows.batch, indptr.span());
  return {rows.size(), n_cols_, std::move(indptr), recycler.take_indices(nnz, rows.matrix),
          recycler.take_values(dtype_, nnz, rows.matrix)};
}

void CsrSink::take(SliceDecoder& decoder, matrix::Block& block) const {
  take_csr(decoder, std::get<matrix::CsrBlock>(block));
}

void CsrSink::take_csr(SliceDecoder& decoder, matrix::CsrBlock& block) const {
  if (drops_columns_) return take_kept(decoder, block);
  decoder.for_each_step(
      [&](const Piece& piece) {
        return decoder.is_identity(piece) || decoder.moves_in_order(piece);
      },
      [&](const Piece& step) { take_step(decoder, step, block); });
}

void CsrSink::take_step(SliceDecoder& decoder, const Piece& step, matrix::CsrBlock& block) const {
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

// Rows are written to the batch once, and by any thread, though where they go depends on what those
// before them keep.
void CsrSink::take_kept(SliceDecoder& decoder, matrix::CsrBlock& block) const {
  std::unique_ptr<KeptRows> kept = kept_->take();
  kept->reset(decoder.first_position(), decoder.n_rows(), decoder.max_entries(), dtype_);
  decoder.for_each_step(
      [](const Piece&) { return false; },
      [&](const Piece& step) {
        decoder.decode_apart(
            step, dtype_, transform::EntryOrder::kIncreasing,
            [&](std::int64_t position, const transform::Row& row) { kept->add(position, row); },
            [&] { return kept->next(); });
      });
  for (SliceOrder::Placed& placed : decoder.give_in_order(std::move(kept))) {
    placed.rows->copy_to(block, placed.begin, decoder.goes_past_caches());
    kept_->give_back(std::move(placed.rows));
  }
}

std::int64_t CsrSink::finish(Recycler& recycler, const Rows& rows, matrix::Block& block) const {
  return finish_csr(recycler, rows, std::get<matrix::CsrBlock>(block));
}

std::int64_t CsrSink::finish_csr(Recycler& recycler, const Rows& rows,
                                 matrix::CsrBlock& block) const {
  if (!drops_columns_) {
    rows.window.compact(rows.batch, block);
    return 0;
  }
  const std::int64_t more = make_room(recycler, rows, block);
  const std::int64_t nnz = rows.window.order(rows.batch).end();
  block.indptr[block.n_rows] = nnz;
  matrix::cut_to_rows(block);
  const auto max_nnz = static_cast<double>(rows.window.max_nnz(rows.batch));
  const double share = max_nnz == 0 ? 0 : static_cast<double>(nnz) / max_nnz;
  double known = kept_share_.load();
  while (share > known && !kept_share_.compare_exchange_weak(known, share)) {
  }
  return more;
}

// For slices that had none, which is rare: as a rule the first batches, where few genes have most
// of the entries.
std::int64_t CsrSink::make_room(Recycler& recycler, const Rows& rows,
                                matrix::CsrBlock& block) const {
  SliceOrder& order = rows.window.order(rows.batch);
  const std::int64_t room = order.room();
  const auto n = static_cast<std::size_t>(order.end());
  std::vector<SliceOrder::Placed> rest = order.place_rest();
  if (rest.empty()) return 0;
  const auto total = static_cast<std::size_t>(order.end());
  matrix::CsrBlock larger{block.n_rows, block.n_cols, std::move(block.indptr),
                          recycler.take_indices(total, rows.matrix),
                          recycler.take_values(dtype_, total, rows.matrix)};
  std::memcpy(larger.indices.data(), block.indices.data(), n * sizeof(std::int32_t));
  std::memcpy(matrix::value_buffer_data(larger.values), matrix::value_buffer_data(block.values),
              n * dtype_bytes(dtype_));
  for (SliceOrder::Placed& placed : rest) {
    placed.rows->copy_to(larger, placed.begin, false);
    kept_->give_back(std::move(placed.rows));
  }
  block = std::move(larger);
  return std::max<std::int64_t>(
      0, bytes_of(recycler, static_cast<std::int64_t>(total)) - bytes_of(recycler, room));
}

}  // namespace cellfeed::loader
