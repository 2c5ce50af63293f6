#include "cellfeed/format/shard/shard_writer.h"

#include <arrow/api.h>

#include <variant>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/dense_file_writer.h"
#include "cellfeed/format/shard/obs_file_writer.h"
#include "cellfeed/format/shard/shard_identity.h"

namespace cellfeed::format::shard {
namespace {

using MatrixWriter = std::variant<CellsFileWriter, DenseFileWriter>;

MatrixWriter make_matrix_writer(const io::FileTarget& stem, const ShardSpec& spec) {
  if (spec.layout == Layout::kDense)
    return DenseFileWriter(stem.with_suffix(".npy"), spec.cells.n_genes);
  return CellsFileWriter(stem.with_suffix(".cells"), spec.cells);
}

}  // namespace

struct ShardWriter::State {
  State(ShardSpec s, const io::FileTarget& stem)
      : spec(std::move(s)),
        matrix(make_matrix_writer(stem, spec)),
        obs(stem, with_shard_number(spec.obs_schema, spec.cells.shard), spec.keeps_library_sizes) {}
  ShardSpec spec;
  MatrixWriter matrix;
  ObsFileWriter obs;
};

ShardWriter::ShardWriter(ShardSpec spec) {
  const io::FileTarget stem(spec.dir, shard_stem(spec.cells.shard, spec.generation));
  state_ = std::make_unique<State>(std::move(spec), stem);
}
ShardWriter::~ShardWriter() = default;
ShardWriter::ShardWriter(ShardWriter&&) noexcept = default;

void ShardWriter::append(EncodedRows rows) {
  if (state_->spec.keeps_library_sizes) state_->obs.append_library_sizes(rows.row_library_sizes);
  std::visit([&](auto& matrix) { matrix.append(std::move(rows)); }, state_->matrix);
}

void ShardWriter::append_obs(const std::shared_ptr<arrow::Table>& obs) { state_->obs.append(obs); }

std::int64_t ShardWriter::n_cells() const {
  return std::visit([](const auto& matrix) { return matrix.n_cells(); }, state_->matrix);
}

ShardEntry ShardWriter::finish() {
  State& s = *state_;
  if (s.obs.n_cells() != n_cells())
    throw Error(ErrorKind::kInternal, fmt::format("shard {} got {} cells and obs of {}",
                                                  s.spec.cells.shard, n_cells(), s.obs.n_cells()));
  ShardEntry entry;
  entry.shard = s.spec.cells.shard;
  entry.first_cell = s.spec.first_cell;
  entry.n_cells = n_cells();
  entry.nnz = std::visit([](const auto& matrix) { return matrix.nnz(); }, s.matrix);
  s.obs.finish(entry);
  entry.matrix = std::visit([](auto& matrix) { return matrix.finish(); }, s.matrix);
  return entry;
}

}  // namespace cellfeed::format::shard
