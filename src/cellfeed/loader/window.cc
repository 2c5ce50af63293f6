#include "cellfeed/loader/window.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "cellfeed/base/error.h"
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

void* value_at(matrix::ValueBuffer& values, std::int64_t place) {
  return std::visit([place](auto& buffer) -> void* { return buffer.data() + place; }, values);
}

void move_values(matrix::ValueBuffer& values, std::int64_t to, std::int64_t from, std::int64_t n) {
  std::visit(
      [&](auto& buffer) {
        std::memmove(buffer.data() + to, buffer.data() + from,
                     static_cast<std::size_t>(n) * sizeof(buffer[0]));
      },
      values);
}

std::vector<Slice> cut_into_slices(std::vector<Piece>& pieces) {
  std::vector<Piece> cut;
  std::vector<Slice> slices;
  std::int64_t rows = kSliceRows;
  for (const Piece& piece : pieces)
    for (std::int64_t begin = piece.begin; begin < piece.end;) {
      if (rows >= kSliceRows) {
        slices.push_back({cut.size(), cut.size()});
        rows = 0;
      }
      const std::int64_t end = std::min(piece.end, begin + kSliceRows - rows);
      cut.push_back({piece.request, begin, end});
      slices.back().end = cut.size();
      rows += end - begin;
      begin = end;
    }
  pieces = std::move(cut);
  return slices;
}

std::int64_t end_of_step(const StoreRequest& request, std::int64_t begin, std::int64_t end) {
  std::int64_t at = begin;
  for (std::int64_t entries = 0; at < std::min(end, begin + kCacheRows); ++at) {
    entries += request.sizes[at];
    if (at > begin && entries > kCacheEntries) break;
  }
  return at;
}

}  // namespace

Window::Window(const collection::Collection& collection, std::vector<sampling::BatchPlan> plans)
    : collection_(collection) {
  std::vector<std::int32_t> request_of_store(static_cast<std::size_t>(collection.n_stores()), -1);
  batches_.reserve(plans.size());
  for (auto& plan : plans) add_batch(std::move(plan), request_of_store);
}

void Window::add_batch(sampling::BatchPlan plan, std::vector<std::int32_t>& request_of_store) {
  WindowBatch batch;
  batch.plan = std::move(plan);
  batch.places.reserve(batch.plan.rows.size());
  std::vector<std::pair<std::int32_t, std::int64_t>>
      touched;  // request, its rows before this batch
  for (std::size_t i = 0; i < batch.plan.rows.size(); ++i) {
    const std::int64_t row = batch.plan.rows[i];
    if (row < 0 || row >= collection_.n_rows())
      throw Error(ErrorKind::kInternal,
                  fmt::format("the plan names a row that is not there: row {} of {}", row,
                              collection_.n_rows()));
    const collection::RowPlace place = collection_.locate(row);
    batch.places.push_back(place);
    std::int32_t& request = request_of_store[place.store];
    if (request < 0) {
      request = static_cast<std::int32_t>(requests_.size());
      requests_.emplace_back().store = place.store;
    }
    auto& rows = requests_[request].rows;
    const auto batch_number = static_cast<std::int64_t>(batches_.size());
    if (std::exchange(requests_[request].last_batch, batch_number) != batch_number)
      touched.emplace_back(request, static_cast<std::int64_t>(rows.size()));
    rows.push_back(place.row);
    requests_[request].position.push_back(static_cast<std::int64_t>(i));
  }
  for (const auto& [request, begin] : touched)
    batch.pieces.push_back(
        {request, begin, static_cast<std::int64_t>(requests_[request].rows.size())});
  batch.slices = cut_into_slices(batch.pieces);
  batches_.push_back(std::move(batch));
}

std::int64_t Window::plan_fetch_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& request : requests_)
    bytes += collection_.store(request.store).plan_fetch_bytes(request.rows);
  return bytes;
}

std::int64_t Window::list_bytes() const {
  constexpr auto kRowBytes = static_cast<std::int64_t>(
      5 * sizeof(std::int64_t) + sizeof(collection::RowPlace) + sizeof(Piece));
  std::int64_t rows = 0;
  for (const auto& batch : batches_) rows += std::ssize(batch.places);
  return rows * kRowBytes;
}

void Window::fetch(const collection::ParallelFor& parallel, Counters& counters) {
  const std::int64_t start = now_ns();
  for (auto& request : requests_) {
    request.fetched = collection_.store(request.store).fetch(request.rows, parallel);
    request.sizes.resize(request.rows.size());
    request.fetched->sizes(request.sizes);
    request.place.resize(request.rows.size());
    request.counts.resize(request.rows.size());
    counters.bytes_read += request.fetched->bytes_read();
    counters.bytes_used += request.fetched->bytes_used();
  }
  for (auto& batch : batches_) {
    batch.max_nnz = 0;
    for (const Piece& piece : batch.pieces)
      for (std::int64_t i = piece.begin; i < piece.end; ++i)
        batch.max_nnz += requests_[piece.request].sizes[i];
  }
  counters.fetch_ns += now_ns() - start;
}

void Window::wait(Counters& counters) const {
  const std::int64_t start = now_ns();
  for (const auto& request : requests_) request.fetched->wait();
  counters.fetch_ns += now_ns() - start;
}

std::int64_t Window::bytes_used() const {
  std::int64_t bytes = 0;
  for (const auto& request : requests_) bytes += request.fetched->bytes_used();
  return bytes;
}

std::int64_t Window::bytes_held() const {
  std::int64_t bytes = 0;
  for (const auto& request : requests_) bytes += request.fetched->bytes_held();
  return bytes;
}

void Window::place_rows(std::size_t b, std::span<std::int64_t> indptr) {
  const WindowBatch& batch = batches_[b];
  indptr[0] = 0;
  for (const Piece& piece : batch.pieces) {
    const StoreRequest& request = requests_[piece.request];
    for (std::int64_t i = piece.begin; i < piece.end; ++i)
      indptr[request.position[i] + 1] = request.sizes[i];
  }
  for (std::size_t i = 1; i < indptr.size(); ++i) indptr[i] += indptr[i - 1];
  for (const Piece& piece : batch.pieces) {
    StoreRequest& request = requests_[piece.request];
    for (std::int64_t i = piece.begin; i < piece.end; ++i)
      request.place[i] = indptr[request.position[i]];
  }
}

void Window::decode_slice(std::size_t b, const Slice& slice, const RowPipeline& pipeline,
                          Casting casting, matrix::Batch& out, Counters& counters) {
  for (std::size_t p = slice.begin; p < slice.end; ++p) {
    const Piece& piece = batches_[b].pieces[p];
    StoreRequest& request = requests_[piece.request];
    const bool is_whole =
        std::holds_alternative<matrix::CsrBlock>(out.x) && pipeline.is_identity(request.store);
    for (std::int64_t begin = piece.begin, end = begin; begin < piece.end; begin = end) {
      end = is_whole ? piece.end : end_of_step(request, begin, piece.end);
      if (auto* csr = std::get_if<matrix::CsrBlock>(&out.x))
        decode_csr(request, begin, end, b, pipeline, casting, *csr, counters);
      else
        decode_dense(request, begin, end, b, pipeline, casting, std::get<matrix::DenseBlock>(out.x),
                     counters);
    }
  }
}

void Window::decode_csr(StoreRequest& request, std::int64_t begin, std::int64_t end, std::size_t b,
                        const RowPipeline& pipeline, Casting casting, matrix::CsrBlock& block,
                        Counters& counters) {
  const std::int64_t start = now_ns();
  const DType dtype = matrix::value_buffer_dtype(block.values);
  const collection::CsrSink sink{request.place.data(),
                                 block.indices.data(),
                                 matrix::value_buffer_data(block.values),
                                 dtype,
                                 casting,
                                 request.counts.data(),
                                 batches_[b].past_caches && pipeline.is_identity(request.store)};
  request.fetched->decode(begin, end, sink);
  const std::int64_t decoded = now_ns();
  counters.decode_ns += decoded - start;
  if (pipeline.is_identity(request.store)) return;
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t place = request.place[i];
    transform::Row row{block.indices.data() + place,
                       value_at(block.values, place),
                       dtype,
                       request.counts[i],
                       0,
                       batches_[b].plan.rows[request.position[i]]};
    pipeline.apply(request.store, row);
    request.counts[i] = row.size;
  }
  counters.transform_ns += now_ns() - decoded;
}

void Window::decode_dense(StoreRequest& request, std::int64_t begin, std::int64_t end,
                          std::size_t b, const RowPipeline& pipeline, Casting casting,
                          matrix::DenseBlock& block, Counters& counters) {
  static thread_local matrix::Buffer<std::int32_t> indices;
  static thread_local matrix::Buffer<std::byte> values;
  const DType dtype = matrix::value_buffer_dtype(block.values);
  const auto stores = transform::choose_row_stores(
      block.n_rows, block.n_cols * static_cast<std::int64_t>(dtype_bytes(dtype)));
  std::int64_t total = 0;
  for (std::int64_t i = begin; i < end; ++i) {
    request.place[i] = total;
    total += request.sizes[i];
  }
  indices.reset(static_cast<std::size_t>(total));
  values.reset(static_cast<std::size_t>(total) * dtype_bytes(dtype));
  const std::int64_t start = now_ns();
  request.fetched->decode(
      begin, end,
      {request.place.data(), indices.data(), values.data(), dtype, casting, request.counts.data()});
  const std::int64_t decoded = now_ns();
  counters.decode_ns += decoded - start;
  for (std::int64_t i = begin; i < end; ++i) {
    transform::Row row{
        indices.data() + request.place[i],
        values.data() + request.place[i] * static_cast<std::int64_t>(dtype_bytes(dtype)),
        dtype,
        request.counts[i],
        0,
        batches_[b].plan.rows[request.position[i]]};
    pipeline.apply(request.store, row);
    request.counts[i] = row.size;
    transform::scatter_row(std::span(row.indices, static_cast<std::size_t>(row.size)), row.values,
                           dtype_bytes(dtype),
                           value_at(block.values, request.position[i] * block.n_cols),
                           static_cast<std::size_t>(block.n_cols), stores);
  }
  counters.transform_ns += now_ns() - decoded;
}

void Window::compact(std::size_t b, matrix::CsrBlock& block) const {
  const WindowBatch& batch = batches_[b];
  std::vector<std::int32_t> counts(static_cast<std::size_t>(block.n_rows));
  bool has_gaps = false;
  for (const Piece& piece : batch.pieces) {
    const StoreRequest& request = requests_[piece.request];
    for (std::int64_t i = piece.begin; i < piece.end; ++i) {
      counts[request.position[i]] = request.counts[i];
      has_gaps |= request.counts[i] != request.sizes[i];
    }
  }
  if (!has_gaps) return;
  std::int64_t to = 0;
  for (std::int64_t r = 0; r < block.n_rows; ++r) {
    const std::int64_t from = block.indptr[r];
    if (from != to) {
      std::memmove(block.indices.data() + to, block.indices.data() + from,
                   static_cast<std::size_t>(counts[r]) * sizeof(std::int32_t));
      move_values(block.values, to, from, counts[r]);
    }
    block.indptr[r] = to;
    to += counts[r];
  }
  block.indptr[block.n_rows] = to;
  block.indices.shrink(static_cast<std::size_t>(to));
  std::visit([to](auto& buffer) { buffer.shrink(static_cast<std::size_t>(to)); }, block.values);
}

}  // namespace cellfeed::loader
