#include "cellfeed/convert/simulate/real_cells.h"

#include <arrow/api.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "cellfeed/base/nearest_name.h"
#include "cellfeed/convert/cell_tasks.h"
#include "cellfeed/convert/ordered_pipeline.h"
#include "cellfeed/io/temp_file.h"
#include "cellfeed/matrix/arrow_result.h"

namespace cellfeed::convert {
namespace {

struct PieceFacts {
  bool has_whole_numbers = true;
  std::int64_t first_negative_row = -1;
};

PieceFacts inspect_piece(const CsrPiece& piece, const SourceRange& range, const std::string& path) {
  PieceFacts facts;
  dispatch_dtype(piece.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* values = reinterpret_cast<const T*>(piece.values.data());
    for (std::int64_t row = 0; row < piece.n_rows(); ++row) {
      for (std::int64_t i = piece.indptr[row]; i < piece.indptr[row + 1]; ++i) {
        if constexpr (std::is_floating_point_v<T>) {
          if (!std::isfinite(values[i]))
            throw_error(
                ErrorKind::kInvalidArgument, path,
                "holds a value that is not finite, and cells like it cannot be made: {} in row {}",
                values[i], range.begin + row);
          if (values[i] != std::trunc(values[i])) facts.has_whole_numbers = false;
        }
        if (values[i] < T{} && facts.first_negative_row < 0)
          facts.first_negative_row = range.begin + row;
      }
    }
  });
  return facts;
}

// REQUIRES: one dtype.
void append_piece(CsrPiece& all, const CsrPiece& part) {
  const std::size_t width = dtype_bytes(part.dtype);
  const std::int64_t entry = all.nnz(), row_end = part.nnz();
  if (const auto needed = static_cast<std::size_t>(entry + row_end); needed > all.indices.size()) {
    const std::size_t room = std::max(needed, all.indices.size() + all.indices.size() / 2);
    matrix::Buffer<std::int32_t> indices(room);
    matrix::Buffer<std::byte> values(room * width);
    if (entry > 0) {
      std::memcpy(indices.data(), all.indices.data(), entry * sizeof(std::int32_t));
      std::memcpy(values.data(), all.values.data(), entry * width);
    }
    all.indices = std::move(indices);
    all.values = std::move(values);
  }
  if (all.indptr.empty()) all.indptr.push_back(0);
  for (std::int64_t row = 0; row < part.n_rows(); ++row)
    all.indptr.push_back(entry + part.indptr[row + 1]);
  if (row_end == 0) return;
  std::memcpy(all.indices.data() + entry, part.indices.data(), row_end * sizeof(std::int32_t));
  std::memcpy(all.values.data() + entry * width, part.values.data(), row_end * width);
}

void reserve(CsrPiece& piece, std::int64_t nnz, DType dtype) {
  piece.dtype = dtype;
  piece.indptr.clear();
  piece.indices.reset(nnz);
  piece.values.reset(nnz * dtype_bytes(dtype));
}

// About the non-zeros of all cells, or -1 where a store does not know without a scan. Of some rows
// or genes of a store nobody knows exactly.
std::int64_t total_nnz(const Sources& sources) {
  std::int64_t nnz = 0;
  for (std::int64_t s = 0; s < sources.n_sources(); ++s) {
    if (sources.store(s).info().nnz < 0) return -1;
    nnz += sources.store(s).info().nnz;
  }
  return nnz;
}

}  // namespace

RealCells::RealCells(const InputCells& input, std::int64_t memory_budget, const std::string& output,
                     exec::ThreadPool& pool, std::stop_token stop)
    : sources_(input, {.origins = Origins::kNone}),
      dtype_(exact_decode_dtype(sources_.value_dtype())),
      cache_(input.cells->reserve_cache(memory_budget / 4)) {
  if (!sources_.is_by_rows())
    sources_.transpose(pool, {.dir = io::FileTarget(output).directory(),
                              .memory_bytes = memory_budget / 4,
                              .stop = stop});
  const std::int64_t nnz = total_nnz(sources_);
  const auto entry_bytes = static_cast<std::int64_t>(sizeof(std::int32_t) + dtype_bytes(dtype_));
  const std::int64_t most_nnz = memory_budget / 2 / entry_bytes;
  if (nnz >= 0 && nnz < most_nnz) {
    all_.emplace();
    reserve(*all_, nnz, dtype_);
  }
  const auto path_of = [&](const SourceRange& range) -> const std::string& {
    return sources_.store(range.source).info().path;
  };
  PassedPages pages(sources_, memory_budget / 4);
  std::int64_t negative_row = -1;
  std::string negative_path;
  std::vector<std::shared_ptr<arrow::Table>> obs;
  const auto tasks = make_cell_tasks(sources_, 0, n_cells());
  using Scanned = std::pair<PieceFacts, std::unique_ptr<CsrPiece>>;
  run_in_order<Scanned>(
      pool, std::ssize(tasks), {memory_budget / 4, 64},
      [&](std::int64_t i) { return sources_.plan_bytes(tasks[i].range); },
      [&](std::int64_t i) -> Scanned {
        const SourceRange& range = tasks[i].range;
        if (tasks[i].is_obs) return {};
        auto piece = std::make_unique<CsrPiece>();
        std::vector<std::int64_t> rows(static_cast<std::size_t>(range.n_cells()));
        std::iota(rows.begin(), rows.end(), range.begin);
        read(range.source, rows, *piece);
        return {inspect_piece(*piece, range, path_of(range)), std::move(piece)};
      },
      [&](std::int64_t i, Scanned&& scanned) {
        if (tasks[i].is_obs) {
          obs.push_back(sources_.read_obs(tasks[i].range));
          return;
        }
        has_counts_ &= scanned.first.has_whole_numbers;
        if (negative_row < 0 && scanned.first.first_negative_row >= 0) {
          negative_row = scanned.first.first_negative_row;
          negative_path = path_of(tasks[i].range);
        }
        if (all_ && all_->nnz() + scanned.second->nnz() > most_nnz) all_.reset();
        if (all_) append_piece(*all_, *scanned.second);
        pages.passed(tasks[i].range);
      },
      stop);
  if (has_counts_ && negative_row >= 0)
    throw_error(
        ErrorKind::kInvalidArgument, negative_path,
        "holds negative whole numbers, which are not counts and cannot be thinned; choose another "
        "layer: row {}",
        negative_row);
  obs_ = matrix::check_arrow(arrow::ConcatenateTables(obs), "join obs");
}

// In the genes of all sources.
void RealCells::read(std::int64_t source, std::span<const std::int64_t> rows,
                     CsrPiece& piece) const {
  read_rows(sources_.store(source), rows, dtype_, Casting::kExact, piece);
  if (const auto map = sources_.gene_map(source); !map.empty())
    renumber_columns(piece, map, sources_.genes().size());
}

const CsrPiece& RealCells::rows(std::span<const std::int64_t> cells, CsrPiece& scratch,
                                std::vector<std::int64_t>& positions) const {
  positions.assign(cells.begin(), cells.end());
  if (all_) return *all_;
  // Cells by store, then put together again.
  std::vector<std::vector<std::int64_t>> rows(sources_.n_sources());
  std::vector<std::pair<std::int64_t, std::int64_t>> places;  // store, number among its rows
  const auto offsets = sources_.offsets();
  for (const std::int64_t cell : cells) {
    const auto s = std::upper_bound(offsets.begin(), offsets.end(), cell) - offsets.begin() - 1;
    places.emplace_back(s, std::ssize(rows[s]));
    rows[s].push_back(cell - offsets[s]);
  }
  std::vector<CsrPiece> parts(rows.size());
  std::vector<std::int64_t> first_row(rows.size() + 1, 0);
  std::int64_t nnz = 0;
  for (std::size_t s = 0; s < rows.size(); ++s) {
    if (!rows[s].empty()) read(static_cast<std::int64_t>(s), rows[s], parts[s]);
    nnz += parts[s].nnz();
    first_row[s + 1] = first_row[s] + std::ssize(rows[s]);
  }
  reserve(scratch, nnz, dtype_);
  for (const CsrPiece& part : parts)
    if (part.n_rows() > 0) append_piece(scratch, part);
  for (std::size_t i = 0; i < cells.size(); ++i)
    positions[i] = first_row[places[i].first] + places[i].second;
  return scratch;
}

matrix::FixedColumn RealCells::labels(const std::string& column) const {
  const auto values = obs_->GetColumnByName(column);
  if (values) return matrix::make_fixed_column(column, *values);
  std::vector<std::string> known{"random", "source"};
  for (const std::string& name : obs_->ColumnNames())
    if (name != "_index") known.push_back(name);
  throw Error(ErrorKind::kNoSuchKey,
              fmt::format("order: no obs column '{}'{}", column, suggestion(column, known)));
}

}  // namespace cellfeed::convert
