#include "cellfeed/convert/simulate/simulate.h"

#include <arrow/api.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "cellfeed/convert/h5ad_output.h"
#include "cellfeed/convert/inputs/unreadable_columns.h"
#include "cellfeed/convert/ordered_pipeline.h"
#include "cellfeed/convert/simulate/real_cells.h"
#include "cellfeed/convert/simulate/simulation_plan.h"
#include "cellfeed/convert/simulate/thinning.h"
#include "cellfeed/exec/memory_budget.h"
#include "cellfeed/matrix/arrow_result.h"
#include "cellfeed/matrix/take_rows.h"

namespace cellfeed::convert {
namespace {

constexpr double kLowestKept = 0.7;
constexpr std::int64_t kSimulatedPieceBytes = 8 << 20;
constexpr std::int64_t kSimulatedPieceCells = 8192;

struct SimulatedPiece {
  PiecePool::Lease rows;
  std::shared_ptr<arrow::Table> obs;
};

class Simulation {
 public:
  explicit Simulation(const SimulateOptions& options);
  SimulateResult run();

 private:
  void write_file(std::int64_t file, std::int64_t begin, std::int64_t end);
  SimulatedPiece make_piece(std::int64_t begin, std::int64_t end);
  template <typename T>
  void thin_rows(const CsrPiece& real, std::span<const std::int64_t> positions, std::int64_t begin,
                 CsrPiece& out) const;
  std::shared_ptr<arrow::Table> make_obs(const std::vector<std::int64_t>& cells,
                                         std::int64_t begin) const;
  std::vector<std::string> file_names() const;
  SimulationPlan make_plan() const;

  SimulateOptions options_;
  exec::ThreadPool pool_;
  RealCells real_;
  SimulationPlan plan_;
  sampling::RandomStream thinning_;
  PiecePool pieces_;
  std::optional<ProgressMeter> meter_;
  SimulateResult result_;
};

const SimulateOptions& checked_simulation(const SimulateOptions& options) {
  if (options.n_cells < 1)
    throw_invalid("at least one cell must be asked for: cells is {}", options.n_cells);
  if (options.n_files < 1 || options.n_files > options.n_cells)
    throw_invalid("every file needs a cell: {} files for {} cells", options.n_files,
                  options.n_cells);
  if (options.output.empty()) throw_invalid("a simulation needs a file to write: output is empty");
  exec::checked_thread_count(options.threads);
  exec::check_memory_budget(options.memory_budget);
  return options;
}

Simulation::Simulation(const SimulateOptions& options)
    : options_(checked_simulation(options)),
      pool_(exec::checked_thread_count(options.threads)),
      real_(options.input, options.memory_budget, options.output, pool_, options.stop),
      plan_(make_plan()),
      thinning_(options.seed, 0, sampling::Purpose::kSimulatedThinning) {
  result_.files = file_names();
  for (const std::string& file : result_.files) {
    require_usable_output(file, options.overwrite);
    refuse_own_input(file, real_.sources());
  }
}

SimulationPlan Simulation::make_plan() const {
  SimulatedOrder order = SimulatedOrder::kLabel;
  if (options_.order == "random") order = SimulatedOrder::kRandom;
  if (options_.order == "source") order = SimulatedOrder::kSource;
  if (order != SimulatedOrder::kLabel)
    return SimulationPlan(real_.n_cells(), options_.n_cells, options_.seed, order, nullptr);
  const matrix::FixedColumn labels = real_.labels(options_.order);
  return SimulationPlan(real_.n_cells(), options_.n_cells, options_.seed, order, &labels);
}

std::vector<std::string> Simulation::file_names() const {
  if (options_.n_files == 1) return {options_.output};
  const std::filesystem::path path(options_.output);
  const std::string extension = path.extension().string();
  const std::string stem = (path.parent_path() / path.stem()).string();
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < options_.n_files; ++i)
    names.push_back(fmt::format("{}_{}{}", stem, i, extension));
  return names;
}

// Cell begin + k is thinned with random words of its own, so the result does not depend on pieces
// or threads.
template <typename T>
void Simulation::thin_rows(const CsrPiece& real, std::span<const std::int64_t> positions,
                           std::int64_t begin, CsrPiece& out) const {
  const T* real_values = reinterpret_cast<const T*>(real.values.data());
  T* values = reinterpret_cast<T*>(out.values.data());
  std::int64_t end = 0;
  for (std::size_t k = 0; k < positions.size(); ++k) {
    WordSource words(thinning_, static_cast<std::uint64_t>(begin) + k);
    const double lost = (1 - kLowestKept) * words.uniform();
    const auto lost_below = static_cast<std::uint64_t>(lost * 0x1p32);
    for (std::int64_t i = real.indptr[positions[k]]; i < real.indptr[positions[k] + 1]; ++i) {
      T value = real_values[i];
      if (options_.thin) {
        if (!real_.has_counts()) {
          if (words.next() < lost_below) continue;
        } else {
          value = static_cast<T>(thin_count(static_cast<std::int64_t>(value), lost, words));
          if (value == T{}) continue;
        }
      }
      out.indices[end] = real.indices[i];
      values[end++] = value;
    }
    out.indptr[k + 1] = end;
  }
}

std::shared_ptr<arrow::Table> Simulation::make_obs(const std::vector<std::int64_t>& cells,
                                                   std::int64_t begin) const {
  auto obs = matrix::take_rows(real_.obs(), cells);
  arrow::StringBuilder names;
  for (std::size_t k = 0; k < cells.size(); ++k)
    matrix::check_arrow(names.Append(fmt::format("cell_{}", begin + static_cast<std::int64_t>(k))),
                        "name a cell");
  arrow::Int64Builder sources;
  matrix::check_arrow(sources.AppendValues(cells), "note source cells");
  const auto chunked = [](auto& builder) {
    return std::make_shared<arrow::ChunkedArray>(
        matrix::check_arrow(builder.Finish(), "make an obs column"));
  };
  obs = matrix::check_arrow(obs->SetColumn(obs->schema()->GetFieldIndex("_index"),
                                           arrow::field("_index", arrow::utf8()), chunked(names)),
                            "name cells");
  // The cells of a simulated file are new ones: they say which row of their own like-file they are
  // from.
  obs = drop_columns(*obs, {kSourceCellColumn});
  return matrix::check_arrow(
      obs->AddColumn(obs->num_columns(), arrow::field(kSourceCellColumn, arrow::int64()),
                     chunked(sources)),
      "note source cells");
}

SimulatedPiece Simulation::make_piece(std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> cells(end - begin), positions;
  for (std::int64_t i = begin; i < end; ++i) cells[i - begin] = plan_.source_cell(i);
  const auto scratch = pieces_.acquire();
  const CsrPiece& real = real_.rows(cells, *scratch, positions);
  auto out = pieces_.acquire();
  std::int64_t most = 0;
  for (const std::int64_t p : positions) most += real.indptr[p + 1] - real.indptr[p];
  out->dtype = real.dtype;
  out->indptr.assign(cells.size() + 1, 0);
  out->indices.reset(most);
  out->values.reset(most * dtype_bytes(real.dtype));
  switch (real.dtype) {
    case DType::kF32:
      thin_rows<float>(real, positions, begin, *out);
      break;
    case DType::kF64:
      thin_rows<double>(real, positions, begin, *out);
      break;
    case DType::kI32:
      thin_rows<std::int32_t>(real, positions, begin, *out);
      break;
    default:
      thin_rows<std::int64_t>(real, positions, begin, *out);
      break;
  }
  return {std::move(out), make_obs(cells, begin)};
}

void Simulation::write_file(std::int64_t file, std::int64_t begin, std::int64_t end) {
  const Sources& like = real_.sources();
  format::h5ad::H5adWriterOptions writer_options;
  writer_options.value_dtype = like.value_dtype();
  writer_options.processing_json = like.processing_json();
  writer_options.compression = options_.compression;
  H5adOutput output(result_.files[file], like.genes().size(), writer_options, options_.overwrite);
  const auto fitting =
      static_cast<std::int64_t>(static_cast<double>(kSimulatedPieceBytes) / like.row_bytes(0));
  const std::int64_t step = std::clamp<std::int64_t>(fitting, 1, kSimulatedPieceCells);
  const std::int64_t n_pieces = (end - begin + step - 1) / step;
  const auto piece_begin = [&](std::int64_t i) { return std::min(end, begin + i * step); };
  run_in_order<SimulatedPiece>(
      pool_, n_pieces, {options_.memory_budget / 2, 32},
      [&](std::int64_t) { return 2 * kSimulatedPieceBytes; },
      [&](std::int64_t i) { return make_piece(piece_begin(i), piece_begin(i + 1)); },
      [&](std::int64_t i, SimulatedPiece&& piece) {
        output.append(*piece.rows);
        output.append_obs(*piece.obs);
        meter_->advance(piece_begin(i + 1) - piece_begin(i));
      },
      options_.stop);
  result_.nnz += output.nnz_written();
  result_.bytes += output.finish(*like.read_var());
}

SimulateResult Simulation::run() {
  meter_.emplace(options_.progress, "simulating", options_.n_cells);
  for (std::int64_t file = 0; file < options_.n_files; ++file) {
    const auto bound = [&](std::int64_t f) {
      return static_cast<std::int64_t>(static_cast<__int128>(options_.n_cells) * f /
                                       options_.n_files);
    };
    write_file(file, bound(file), bound(file + 1));
  }
  result_.n_cells = options_.n_cells;
  result_.n_genes = real_.sources().genes().size();
  result_.n_real_cells = real_.n_cells();
  result_.has_counts = real_.has_counts();
  result_.seconds = meter_->seconds();
  result_.cells_per_second = meter_->rate();
  result_.left_out_text = unreadable_text(real_.sources());
  return std::move(result_);
}

}  // namespace

SimulateResult simulate(const SimulateOptions& options) { return Simulation(options).run(); }

}  // namespace cellfeed::convert
