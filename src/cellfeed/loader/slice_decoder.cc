#include "cellfeed/loader/slice_decoder.h"

#include <algorithm>

namespace cellfeed::loader {
namespace {

// Rows decoded before their transforms run, while they are still in the cache; fewer where they are
// long, so that what a thread decodes in stays small.
constexpr std::int64_t kCacheRows = 8;
constexpr std::int64_t kCacheEntries = 32 << 10;

}  // namespace

SliceDecoder::SliceDecoder(const SliceRows& rows, const RowPipeline& pipeline, Casting casting)
    : rows_(rows), pipeline_(pipeline), casting_(casting) {}

void SliceDecoder::run(const BatchSink& sink, matrix::Block& block, Counters& counters) {
  sink.take(*this, block);
  const std::int64_t all_ns = now_ns() - start_ns_;
  counters.decode_ns += all_ns - transform_ns_;
  counters.transform_ns += transform_ns_;
}

std::int64_t SliceDecoder::n_rows() const {
  std::int64_t n = 0;
  for (const Piece& piece : rows_.pieces) n += piece.end - piece.begin;
  return n;
}

std::int64_t SliceDecoder::max_entries() const {
  std::int64_t n = 0;
  for (const Piece& piece : rows_.pieces)
    for (std::int64_t i = piece.begin; i < piece.end; ++i) n += rows_.sizes[i];
  return n;
}

void SliceDecoder::cut_into_steps(const Piece& piece, bool is_whole) {
  for (std::int64_t begin = piece.begin; begin < piece.end;) {
    const std::int64_t end = is_whole ? piece.end : end_of_step(piece, begin);
    steps_[n_steps_++] = {piece.part, begin, end};
    begin = end;
  }
}

std::int64_t SliceDecoder::end_of_step(const Piece& piece, std::int64_t begin) const {
  std::int64_t at = begin;
  for (std::int64_t entries = 0; at < std::min(piece.end, begin + kCacheRows); ++at) {
    entries += rows_.sizes[at];
    if (at > begin && entries > kCacheEntries) break;
  }
  return at;
}

// Keeps kRowsAhead rows behind a step on their way to the caches, whatever stores they are of.
void SliceDecoder::prefetch(std::size_t step) {
  const auto ask = [this] {
    const Piece& next = steps_[next_asked_++];
    const std::int64_t first = part(next).begin;
    fetched(next).prefetch(next.begin - first,
                           std::min(next.end, next.begin + collection::kRowsAhead) - first);
    rows_asked_ += next.end - next.begin;
  };
  if (next_asked_ == step) ask();
  rows_asked_ -= steps_[step].end - steps_[step].begin;
  while (next_asked_ < n_steps_ && rows_asked_ < collection::kRowsAhead) ask();
}

void SliceDecoder::decode(const Piece& step, std::int32_t* indices, void* values, DType dtype,
                          bool is_final) {
  const std::int64_t first = part(step).begin;
  const collection::CsrTarget sink = sink_of(step, indices, values, dtype, is_final);
  if (const collection::MovedRows* rows = moved(step))
    rows->decode_moved(step.begin - first, step.end - first, sink, {});
  else
    fetched(step).decode(step.begin - first, step.end - first, sink);
}

void SliceDecoder::decode_moved(const Piece& step, std::int32_t* indices, void* values,
                                DType dtype) {
  const std::int64_t first = part(step).begin;
  const transform::ColumnMap& map = pipeline_.map(part(step).store);
  moved(step)->decode_moved(step.begin - first, step.end - first,
                            sink_of(step, indices, values, dtype, true), {map.places, map.narrow});
}

collection::CsrTarget SliceDecoder::sink_of(const Piece& step, std::int32_t* indices, void* values,
                                            DType dtype, bool is_final) const {
  const std::int64_t first = part(step).begin;
  return {.place = rows_.place + first,
          .indices = indices,
          .values = values,
          .dtype = dtype,
          .casting = casting_,
          .counts = rows_.counts + first,
          .past_caches = rows_.past_caches && is_final};
}

transform::Row SliceDecoder::change_row(const Piece& step, std::int64_t i, std::int32_t* indices,
                                        void* values, DType dtype, transform::EntryOrder order,
                                        const transform::RowRoom& room) {
  transform::Row row{indices,         values, dtype,
                     rows_.counts[i], 0,      rows_.plan.rows[rows_.positions[i]]};
  pipeline_.apply(part(step).store, row, order, room);
  rows_.counts[i] = row.size;
  return row;
}

SliceDecoder::Scratch SliceDecoder::make_scratch(const Piece& step, DType dtype) {
  static thread_local matrix::Buffer<std::int32_t> indices;
  static thread_local matrix::Buffer<std::byte> values;
  std::int64_t total = 0;
  for (std::int64_t i = step.begin; i < step.end; ++i) {
    rows_.place[i] = total;
    total += rows_.sizes[i];
  }
  indices.reset(static_cast<std::size_t>(total));
  values.reset(static_cast<std::size_t>(total) * dtype_bytes(dtype));
  return {indices.data(), values.data()};
}

void SliceDecoder::move_dense(const Piece& step, void* values, DType dtype, std::int64_t n_cols) {
  const std::int64_t first = part(step).begin;
  for (std::int64_t i = step.begin; i < step.end; ++i) rows_.place[i] = rows_.positions[i] * n_cols;
  fetched(step).decode_dense(step.begin - first, step.end - first,
                             {.place = rows_.place + first,
                              .values = values,
                              .dtype = dtype,
                              .casting = casting_,
                              .columns = pipeline_.source_columns(part(step).store),
                              .past_caches = rows_.past_caches});
}

}  // namespace cellfeed::loader
