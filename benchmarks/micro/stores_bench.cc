// What it costs that cells lie in many files, and that batches have fewer genes: processor time a
// cell of a true random epoch over the same cells in few files and in many, with all genes and with
// every second one, warm, and the ratio of the two in this run.
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cellfeed/collection/collection.h"
#include "cellfeed/format/h5ad/h5ad_writer.h"
#include "cellfeed/loader/batch_iterator.h"
#include "cellfeed/sampling/block_shuffling.h"
#include "cellfeed/testing/shard_fixture.h"
#include "cellfeed/testing/temp_dir.h"
#include "cellfeed/transform/select_genes.h"

namespace {

using namespace cellfeed;  // NOLINT: a program of one file

constexpr std::int64_t kCells = 40'000;
constexpr std::int64_t kGenes = 1'250;  // about 500 non-zeros a cell

constexpr std::int64_t kFewFiles = 4;

enum Format : std::int64_t { kPacked, kPlain, kGzip };

double process_seconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void write_h5ad(const std::string& path, std::int64_t begin, std::int64_t end, bool gzip) {
  format::h5ad::H5adWriter writer(
      path, kGenes,
      {.compression = gzip ? format::h5ad::Compression::kGzip : format::h5ad::Compression::kNone});
  std::vector<std::int64_t> indptr{0};
  std::vector<std::int32_t> indices;
  std::vector<float> values;
  for (std::int64_t cell = begin; cell < end; ++cell) {
    const auto row = testing::fixture_row(cell, kGenes);
    indices.insert(indices.end(), row.indices.begin(), row.indices.end());
    values.insert(values.end(), row.values.begin(), row.values.end());
    indptr.push_back(std::ssize(indices));
  }
  writer.append(
      {.indptr = indptr, .indices = indices.data(), .values = values.data(), .dtype = DType::kF32});
  writer.finish(nullptr);
}

std::vector<std::string> write_files(const std::string& dir, Format format, std::int64_t n) {
  const std::int64_t file_cells = kCells / n;
  if (format == kPacked) {
    testing::write_fixture(dir, {.n_cells = kCells,
                                 .shard_size = file_cells,
                                 .n_genes = kGenes,
                                 .segment_bytes = 1 << 20,
                                 .rows_per_append = file_cells});
    return {dir};
  }
  std::vector<std::string> paths;
  for (std::int64_t i = 0; i < n; ++i) {
    paths.push_back(dir + "/" + std::to_string(i) + ".h5ad");
    write_h5ad(paths.back(), i * file_cells, (i + 1) * file_cells, format == kGzip);
  }
  return paths;
}

struct Data {
  testing::TempDir dir;
  std::shared_ptr<const collection::Collection> cells;
};

// Opened once for all benchmarks.
const collection::Collection& open_files(Format format, std::int64_t n,
                                         std::shared_ptr<const collection::Collection>& cells) {
  static std::map<std::pair<Format, std::int64_t>, std::unique_ptr<Data>> opened;
  auto& data = opened[{format, n}];
  if (!data) {
    data = std::make_unique<Data>();
    data->cells = collection::Collection::open(write_files(data->dir.path(), format, n), {});
  }
  cells = data->cells;
  return *cells;
}

struct Epochs {
  std::shared_ptr<const loader::LoaderCore> core;
  std::int64_t batch_size = 0;
  std::int64_t fetch_factor = 0;
  std::uint64_t epoch = 0;

  double read_next() {
    const std::int64_t n = core->collection->n_rows();
    const auto order = std::make_shared<sampling::BlockShuffling>(n, 1);
    const double start = process_seconds();
    loader::BatchIterator iterator(
        core, {order, {.batch_size = batch_size, .fetch_factor = fetch_factor}, 1, epoch++});
    std::shared_ptr<loader::LoadedBatch> batch;
    while (iterator.next(1000, &batch) != loader::BatchIterator::Status::kEnd) batch.reset();
    return process_seconds() - start;
  }
};

// The best epoch, in seconds.
double time_epochs(benchmark::State& state, Epochs epochs) {
  double best = 0;
  epochs.read_next();
  for (auto _ : state) {
    const double seconds = epochs.read_next();
    state.SetIterationTime(seconds);
    best = best == 0 ? seconds : std::min(best, seconds);
  }
  state.counters["us_per_cell"] = best * 1e6 / static_cast<double>(kCells);
  return best;
}

// Arguments: format, files, cells a batch, batches a window.
void BM_Epoch(benchmark::State& state) {
  std::shared_ptr<const collection::Collection> cells;
  open_files(static_cast<Format>(state.range(0)), state.range(1), cells);
  const double best = time_epochs(
      state, {loader::make_loader_core(cells, {.threads = 2}), state.range(2), state.range(3)});
  // Of the same windows over few files, which ran before.
  static std::map<std::vector<std::int64_t>, double> of_few_files;
  double& few = of_few_files[{state.range(0), state.range(2), state.range(3)}];
  if (state.range(1) == kFewFiles) few = few == 0 ? best : std::min(few, best);
  state.counters["times_few_files"] = best / few;
}
BENCHMARK(BM_Epoch)
    ->ArgNames({"format", "files", "batch", "fetch"})
    ->ArgsProduct({{kPacked, kPlain}, {kFewFiles, 1000}, {1024}, {16}})
    ->ArgsProduct({{kPacked, kPlain, kGzip}, {kFewFiles, 200}, {256}, {1}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

// Arguments: format, files, of how many genes a batch has one, cells a batch.
void BM_Selected(benchmark::State& state) {
  std::shared_ptr<const collection::Collection> cells;
  open_files(static_cast<Format>(state.range(0)), state.range(1), cells);
  loader::LoaderOptions options{.threads = 2};
  if (state.range(2) > 1) {
    std::vector<std::string> kept;
    for (std::int64_t gene = 0; gene < kGenes; gene += state.range(2))
      kept.push_back(cells->genes().names[static_cast<std::size_t>(gene)]);
    options.transforms.push_back(std::make_shared<transform::SelectGenes>(std::move(kept)));
  }
  const double best =
      time_epochs(state, {loader::make_loader_core(cells, std::move(options)), state.range(3), 16});
  // Of all genes, which ran before.
  static std::map<std::vector<std::int64_t>, double> of_all_genes;
  double& all = of_all_genes[{state.range(0), state.range(1), state.range(3)}];
  if (state.range(2) == 1) all = all == 0 ? best : std::min(all, best);
  state.counters["times_all_genes"] = best / all;
}
BENCHMARK(BM_Selected)
    ->ArgNames({"format", "files", "one_of", "batch"})
    ->ArgsProduct({{kPacked, kPlain}, {1, kFewFiles}, {1, 2, 10}, {256, 1024, 4096}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
