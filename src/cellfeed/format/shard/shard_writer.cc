#include "cellfeed/format/shard/shard_writer.h"

#include <arrow/api.h>

#include <filesystem>
#include <variant>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/dense_file_writer.h"
#include "cellfeed/format/shard/obs_file_writer.h"
#include "cellfeed/format/shard/shard_identity.h"

namespace cellfeed::format::shard {
namespace {

using MatrixWriter = std::variant<CellsFileWriter, DenseFileWriter>;

MatrixWriter make_matrix_writer(const std::string& stem, const ShardSpec& spec) {
  if (spec.layout == Layout::kDense) return DenseFileWriter(stem + ".npy", spec.cells.n_genes);
  return CellsFileWriter(stem + ".cells", spec.cells);
}

}  // namespace

std::string shard_stem(std::int64_t shard) { return fmt::format("shard_{:06d}", shard); }

struct ShardWriter::State {
  State(ShardSpec s, const std::string& stem)
      : spec(std::move(s)),
        matrix(make_matrix_writer(stem, spec)),
        obs(stem, with_shard_number(spec.obs_schema, spec.cells.shard)) {}
  ShardSpec spec;
  MatrixWriter matrix;
  ObsFileWriter obs;
};

ShardWriter::ShardWriter(ShardSpec spec) {
  const auto stem = (std::filesystem::path(spec.dir) / shard_stem(spec.cells.shard)).string();
  state_ = std::make_unique<State>(std::move(spec), stem);
}
ShardWriter::~ShardWriter() = default;
ShardWriter::ShardWriter(ShardWriter&&) noexcept = default;

void ShardWriter::append(const EncodedRows& rows) {
  std::visit([&](auto& matrix) { matrix.append(rows); }, state_->matrix);
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
