#include "cellfeed/loader/slice_decoder.h"

#include <algorithm>
#include <array>

#include "cellfeed/transform/simd/row_kernels.h"

namespace cellfeed::loader {
namespace {

// Rows a thread takes at a time: enough to hide the cost of handing them out, few enough to share a
// batch evenly.
constexpr std::int64_t kSliceRows = 64;
// Rows decoded before their transforms run, while they are still in the cache; fewer where they are
// long, so that what a thread decodes in stays small.
constexpr std::int64_t kCacheRows = 8;
constexpr std::int64_t kCacheEntries = 32 << 10;

using Piece = RowsByStore::Piece;

void* value_at(matrix::ValueBuffer& values, std::int64_t place) {
  return std::visit([place](auto& buffer) -> void* { return buffer.data() + place; }, values);
}

class SliceDecoder {
 public:
  SliceDecoder(const SliceRows& rows, const RowPipeline& pipeline, Casting casting,
               matrix::Block& out)
      : rows_(rows), pipeline_(pipeline), casting_(casting), out_(out) {
    for (const Piece& piece : rows.pieces)
      for (std::int64_t begin = piece.begin; begin < piece.end;) {
        const std::int64_t end = end_of_step(piece, begin);
        steps_[n_steps_++] = {piece.part, begin, end};
        begin = end;
      }
  }

  void run(Counters& counters) {
    for (std::size_t s = 0; s < n_steps_; ++s) {
      prefetch(s);
      if (auto* csr = std::get_if<matrix::CsrBlock>(&out_))
        decode_csr(steps_[s], *csr);
      else if (stays_dense(steps_[s]))
        move_dense(steps_[s], std::get<matrix::DenseBlock>(out_));
      else
        scatter_csr(steps_[s], std::get<matrix::DenseBlock>(out_));
    }
    const std::int64_t all_ns = now_ns() - start_ns_;
    counters.decode_ns += all_ns - transform_ns_;
    counters.transform_ns += transform_ns_;
  }

 private:
  const collection::FetchedRows& fetched(const Piece& step) const {
    return *rows_.fetched[static_cast<std::size_t>(step.part)];
  }
  const RowsByStore::Part& part(const Piece& step) const {
    return rows_.parts[static_cast<std::size_t>(step.part)];
  }
  bool is_identity(const Piece& step) const { return pipeline_.is_identity(part(step).store); }
  bool stays_dense(const Piece& step) const {
    return pipeline_.only_moves_columns() && fetched(step).is_dense();
  }
  // Whether its rows go to the batch by one call, as they are decoded.
  bool is_direct(const Piece& step) const {
    return std::holds_alternative<matrix::CsrBlock>(out_) ? is_identity(step) : stays_dense(step);
  }

  std::int64_t end_of_step(const Piece& piece, std::int64_t begin) const {
    if (is_direct(piece)) return piece.end;
    std::int64_t at = begin;
    for (std::int64_t entries = 0; at < std::min(piece.end, begin + kCacheRows); ++at) {
      entries += rows_.sizes[at];
      if (at > begin && entries > kCacheEntries) break;
    }
    return at;
  }

  // Keeps kRowsAhead rows behind step s on their way to the caches, whatever stores they are of.
  void prefetch(std::size_t s) {
    const auto ask = [this] {
      const Piece& step = steps_[next_asked_++];
      const std::int64_t first = part(step).begin;
      fetched(step).prefetch(step.begin - first,
                             std::min(step.end, step.begin + collection::kRowsAhead) - first);
      rows_asked_ += step.end - step.begin;
    };
    if (next_asked_ == s) ask();
    rows_asked_ -= steps_[s].end - steps_[s].begin;
    while (next_asked_ < n_steps_ && rows_asked_ < collection::kRowsAhead) ask();
  }

  void decode(const Piece& step, const std::int64_t* place, std::int32_t* indices, void* values,
              DType dtype, bool past_caches) {
    const std::int64_t first = part(step).begin;
    fetched(step).decode(step.begin - first, step.end - first,
                         {.place = place + first,
                          .indices = indices,
                          .values = values,
                          .dtype = dtype,
                          .casting = casting_,
                          .counts = rows_.counts + first,
                          .past_caches = past_caches});
  }

  transform::Row apply(const Piece& step, std::int64_t i, std::int32_t* indices, void* values,
                       DType dtype) {
    transform::Row row{indices,         values, dtype,
                       rows_.counts[i], 0,      rows_.plan.rows[rows_.positions[i]]};
    pipeline_.apply(part(step).store, row);
    rows_.counts[i] = row.size;
    return row;
  }

  void decode_csr(const Piece& step, matrix::CsrBlock& block) {
    const DType dtype = matrix::value_buffer_dtype(block.values);
    const bool identity = is_identity(step);
    decode(step, rows_.place, block.indices.data(), matrix::value_buffer_data(block.values), dtype,
           rows_.past_caches && identity);
    if (identity) return;
    const std::int64_t decoded = now_ns();
    for (std::int64_t i = step.begin; i < step.end; ++i)
      apply(step, i, block.indices.data() + rows_.place[i], value_at(block.values, rows_.place[i]),
            dtype);
    pipeline_.require_intact(part(step).store);
    transform_ns_ += now_ns() - decoded;
  }

  void move_dense(const Piece& step, matrix::DenseBlock& block) {
    const std::int64_t first = part(step).begin;
    for (std::int64_t i = step.begin; i < step.end; ++i)
      rows_.place[i] = rows_.positions[i] * block.n_cols;
    fetched(step).decode_dense(step.begin - first, step.end - first,
                               {.place = rows_.place + first,
                                .values = matrix::value_buffer_data(block.values),
                                .dtype = matrix::value_buffer_dtype(block.values),
                                .casting = casting_,
                                .columns = pipeline_.source_columns(part(step).store),
                                .past_caches = rows_.past_caches});
  }

  // What is not stored dense, or transformed.
  void scatter_csr(const Piece& step, matrix::DenseBlock& block) {
    static thread_local matrix::Buffer<std::int32_t> indices;
    static thread_local matrix::Buffer<std::byte> values;
    const DType dtype = matrix::value_buffer_dtype(block.values);
    const auto width = static_cast<std::int64_t>(dtype_bytes(dtype));
    const auto stores = transform::choose_row_stores(block.n_rows, block.n_cols * width);
    std::int64_t total = 0;
    for (std::int64_t i = step.begin; i < step.end; ++i) {
      rows_.place[i] = total;
      total += rows_.sizes[i];
    }
    indices.reset(static_cast<std::size_t>(total));
    values.reset(static_cast<std::size_t>(total * width));
    decode(step, rows_.place, indices.data(), values.data(), dtype, false);
    const std::int64_t decoded = now_ns();
    for (std::int64_t i = step.begin; i < step.end; ++i) {
      const transform::Row row = apply(step, i, indices.data() + rows_.place[i],
                                       values.data() + rows_.place[i] * width, dtype);
      transform::scatter_row(std::span(row.indices, static_cast<std::size_t>(row.size)), row.values,
                             static_cast<std::size_t>(width),
                             value_at(block.values, rows_.positions[i] * block.n_cols),
                             static_cast<std::size_t>(block.n_cols), stores);
    }
    pipeline_.require_intact(part(step).store);
    transform_ns_ += now_ns() - decoded;
  }

  const SliceRows& rows_;
  const RowPipeline& pipeline_;
  const Casting casting_;
  matrix::Block& out_;
  std::array<Piece, kSliceRows> steps_;  // rows of one store that are decoded by one call
  std::size_t n_steps_ = 0;
  std::size_t next_asked_ = 0;   // the first step that was not prefetched
  std::int64_t rows_asked_ = 0;  // of steps that were, and are not begun
  const std::int64_t start_ns_ = now_ns();
  std::int64_t transform_ns_ = 0;
};

}  // namespace

void cut_into_slices(std::size_t matrix, std::span<const Piece> batch, std::vector<Piece>& pieces,
                     std::vector<Slice>& slices) {
  std::int64_t rows = kSliceRows;
  for (const Piece& piece : batch)
    for (std::int64_t begin = piece.begin; begin < piece.end;) {
      if (rows >= kSliceRows) {
        slices.push_back({matrix, pieces.size(), pieces.size()});
        rows = 0;
      }
      const std::int64_t end = std::min(piece.end, begin + kSliceRows - rows);
      pieces.push_back({piece.part, begin, end});
      slices.back().end = pieces.size();
      rows += end - begin;
      begin = end;
    }
}

void decode_slice(const SliceRows& rows, const RowPipeline& pipeline, Casting casting,
                  matrix::Block& out, Counters& counters) {
  SliceDecoder(rows, pipeline, casting, out).run(counters);
}

}  // namespace cellfeed::loader
