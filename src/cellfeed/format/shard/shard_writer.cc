#include "cellfeed/format/shard/shard_writer.h"

#include <arrow/api.h>

#include <algorithm>
#include <numeric>
#include <ranges>
#include <variant>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/dense_file_writer.h"
#include "cellfeed/format/shard/obs/obs_file_writer.h"
#include "cellfeed/format/shard/obs/shard_identity.h"

namespace cellfeed::format::shard {
namespace {

using MatrixWriter = std::variant<CellsFileWriter, DenseFileWriter>;

io::FileTarget target_of(const ShardSpec& spec, std::size_t matrix, Layout layout) {
  const std::string stem = matrix_stem(spec.cells.shard, spec.generation, matrix);
  return {spec.dir, stem + (layout == Layout::kDense ? ".npy" : ".cells")};
}

MatrixWriter make_writer(const io::FileTarget& target, Layout layout, const CellsFileSpec& cells) {
  if (layout == Layout::kDense) return DenseFileWriter(target, cells.n_genes);
  return CellsFileWriter(target, cells);
}

std::vector<MatrixWriter> make_writers(const ShardSpec& spec) {
  std::vector<MatrixWriter> writers;
  writers.push_back(make_writer(target_of(spec, 0, spec.layout), spec.layout, spec.cells));
  for (const MatrixSpec& matrix : spec.matrices) {
    CellsFileSpec cells = spec.cells;
    cells.n_genes = matrix.n_cols;
    cells.value_dtype = matrix.value_dtype;
    cells.gene_order = matrix.gene_order;
    writers.push_back(
        make_writer(target_of(spec, writers.size(), matrix.layout), matrix.layout, cells));
  }
  return writers;
}

std::int64_t cells_in(const MatrixWriter& writer) {
  return std::visit([](const auto& matrix) { return matrix.n_cells(); }, writer);
}

ShardMatrix finish_matrix(MatrixWriter& writer, std::int64_t not_finite) {
  const std::int64_t nnz = std::visit([](const auto& matrix) { return matrix.nnz(); }, writer);
  return {nnz, not_finite, std::visit([](auto& matrix) { return matrix.finish(); }, writer)};
}

}  // namespace

struct ShardWriter::State {
  State(ShardSpec s, const io::FileTarget& stem)
      : spec(std::move(s)),
        matrices(make_writers(spec)),
        not_finite(matrices.size()),
        obs(stem, with_shard_number(spec.obs_schema, spec.cells.shard), spec.keeps_library_sizes) {}
  ShardSpec spec;
  std::vector<MatrixWriter> matrices;
  std::vector<std::int64_t> not_finite;
  ObsFileWriter obs;
};

ShardWriter::ShardWriter(ShardSpec spec) {
  const io::FileTarget stem(spec.dir, shard_stem(spec.cells.shard, spec.generation));
  state_ = std::make_unique<State>(std::move(spec), stem);
}
ShardWriter::~ShardWriter() = default;
ShardWriter::ShardWriter(ShardWriter&&) noexcept = default;

void ShardWriter::append(EncodedRows& rows, std::size_t matrix) {
  if (matrix == 0 && state_->spec.keeps_library_sizes)
    state_->obs.append_library_sizes(rows.row_library_sizes);
  auto& not_finite = state_->not_finite[matrix];
  not_finite = std::accumulate(rows.not_finite.begin(), rows.not_finite.end(), not_finite);
  std::visit([&](auto& writer) { writer.append(rows); }, state_->matrices[matrix]);
}

void ShardWriter::append_obs(const std::shared_ptr<arrow::Table>& obs) { state_->obs.append(obs); }

std::int64_t ShardWriter::n_cells() const {
  return std::ranges::min(state_->matrices | std::views::transform(cells_in));
}

ShardEntry ShardWriter::finish() {
  State& s = *state_;
  for (const MatrixWriter& matrix : s.matrices)
    if (cells_in(matrix) != s.obs.n_cells())
      throw Error(ErrorKind::kInternal,
                  fmt::format("shard {} got {} cells and obs of {}", s.spec.cells.shard,
                              cells_in(matrix), s.obs.n_cells()));
  ShardEntry entry;
  entry.shard = s.spec.cells.shard;
  entry.first_cell = s.spec.first_cell;
  entry.n_cells = n_cells();
  entry.has_own_library_sizes = s.spec.has_own_library_sizes;
  s.obs.finish(entry);
  for (std::size_t m = 0; m < s.matrices.size(); ++m) {
    ShardMatrix matrix = finish_matrix(s.matrices[m], s.not_finite[m]);
    if (m > 0) {
      entry.matrices.push_back(std::move(matrix));
      continue;
    }
    entry.nnz = matrix.nnz;
    entry.not_finite = matrix.not_finite;
    entry.matrix = std::move(matrix.file);
  }
  return entry;
}

}  // namespace cellfeed::format::shard
