#include "cellfeed/convert/inputs/sources.h"

#include <arrow/api.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <numeric>

#include "cellfeed/base/argument_text.h"
#include "cellfeed/base/nearest_name.h"
#include "cellfeed/collection/added_obs.h"
#include "cellfeed/collection/gene_keys.h"
#include "cellfeed/collection/left_out.h"
#include "cellfeed/collection/paths.h"
#include "cellfeed/convert/inputs/cell_origins.h"
#include "cellfeed/convert/inputs/joined_var.h"
#include "cellfeed/convert/inputs/row_reader.h"
#include "cellfeed/convert/inputs/selected_store.h"
#include "cellfeed/format/shard/obs/obs_schema.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/matrix/arrow_result.h"
#include "cellfeed/matrix/obs_union.h"

namespace cellfeed::convert {
namespace {

using collection::Collection;

constexpr const char* kIndex = "_index";
// Of var, where another column names the genes.
constexpr const char* kOwnNames = "var_names";

DType unite_value_dtypes(const Collection& cells) {
  std::vector<DType> dtypes;
  for (std::int64_t s = 0; s < cells.n_stores(); ++s)
    dtypes.push_back(cells.store(s).info().value_dtype);
  return matrix::unite_dtypes(dtypes);
}

std::vector<std::int64_t> consecutive(std::int64_t first, std::int64_t n) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(n));
  std::iota(rows.begin(), rows.end(), first);
  return rows;
}

std::vector<std::unique_ptr<format::RowStore>> stores_of(const Collection& cells) {
  std::vector<std::shared_ptr<const format::RowStore>> shared;
  for (std::int64_t s = 0; s < cells.n_stores(); ++s) shared.push_back(cells.shared_store(s));
  if (cells.has_selected_rows())
    return select_rows(shared, cells.n_rows(), [&](std::int64_t i) { return cells.locate(i); });
  std::vector<std::unique_ptr<format::RowStore>> stores;
  for (auto& store : shared) stores.push_back(all_rows(std::move(store)));
  return stores;
}

const InputCells& with_genes(const InputCells& input) {
  if (input.cells->genes().size() == 0)
    throw_error(
        ErrorKind::kInvalidArgument, input.cells->store(0).info().path,
        "no genes are left to write: open the cells with a matrix ({}), and files that share "
        "no gene with {}",
        argument("layer"), argument("join", "outer"));
  return input;
}

}  // namespace

Sources::Sources(const InputCells& input, std::size_t matrix,
                 std::shared_ptr<const collection::GeneTable> behind)
    : paths_(input.all_paths()) {
  const Collection& cells = input.cells->matrix(matrix);
  for (std::int64_t s = 0; s < cells.n_stores(); ++s)
    if (const auto* late =
            dynamic_cast<const TransposedStore*>(&collection::without_added_obs(cells.store(s))))
      transposed_.push_back(late);
  collection::CollectionOptions joined;
  if (!format::is_obsm(cells.store(0).info().layer)) {
    joined.join = collection::Join::kFixed;
    joined.genes = cells.genes().names;
    joined.var_keys = cells.var_keys();
    joined.make_unique = input.make_unique;
    joined.behind = std::move(behind);
  }
  keeps_own_names_ = input.keeps_own_names || !joined.var_keys.empty();
  if (cells.n_rows() == 0)
    throw Error(ErrorKind::kInvalidArgument, "holds no cells, so there is nothing to write",
                cells.store(0).info().path);
  cells_ = std::make_shared<const Collection>(stores_of(cells), joined);
  if (cells.allows_mixed_processing()) cells_ = cells_->with_mixed_processing();
  processing_json_ = cells_->processing().json;
  value_dtype_ = unite_value_dtypes(*cells_);
  obs_ = std::make_unique<TableUnion>("obs");
}

Sources Sources::of_matrix(const InputCells& input, std::size_t matrix) {
  return Sources(input, matrix, nullptr);
}

Sources::Sources(const InputCells& input, const SourceOptions& options)
    : Sources(with_genes(input), 0, options.behind) {
  origins_ = options.origins;
  obs_choice_ = options.obs_choice;
  require_chosen_obs();
  unite_obs(options.obs_before);
}

std::string Sources::input_at(const std::string& path) const {
  const std::filesystem::path target = io::canonical(path);
  for (const std::string& given : paths_) {
    const std::filesystem::path input = io::canonical(given);
    if (std::mismatch(target.begin(), target.end(), input.begin(), input.end()).first ==
        target.end())
      return input.string();
  }
  return {};
}

// A column that cannot be read is an error where it was chosen.
void Sources::require_chosen_obs() const {
  check_obs_choice(obs_choice_);
  std::vector<std::string> wanted = obs_choice_.only;
  wanted.insert(wanted.end(), obs_choice_.excluded.begin(), obs_choice_.excluded.end());
  if (wanted.empty()) return;
  std::vector<std::string> known;
  for (std::int64_t s = 0; s < n_sources(); ++s) {
    const auto readable = store(s).read_obs(0, 0);
    for (const std::string& name : obs_choice_.only)
      if (const std::string why = collection::why_unreadable(*readable, "obs/" + name);
          !why.empty())
        throw Error(ErrorKind::kUnsupported, why);
    std::ranges::move(store(s).obs_names(), std::back_inserter(known));
  }
  for (const std::string& name : wanted)
    if (std::ranges::find(known, name) == known.end())
      throw_error(ErrorKind::kNoSuchKey, store(0).info().path, "no obs column '{}'{}", name,
                  suggestion(name, known));
}

void Sources::unite_obs(const std::vector<ObsSample>& before) {
  n_obs_before_ = before.size();
  for (const ObsSample& sample : before) obs_->add_source(*sample.rows, sample.path);
  struct First {
    bool names_origin = false;
    std::shared_ptr<arrow::Table> row;
  };
  std::vector<First> firsts(static_cast<std::size_t>(n_sources()));
  cells_->step_stores(n_sources(), [&](std::int64_t s) {
    const bool is_chosen = !store(s).source_rows(std::vector<std::int64_t>{0}).empty();
    firsts[static_cast<std::size_t>(s)] = {
        is_chosen || names_origins(store(s).obs_names()),
        read_own_obs({s, 0, std::min<std::int64_t>(1, store(s).info().n_rows)})};
  });
  names_origins_ = origins_ == Origins::kAll || (origins_ == Origins::kOfChosenCells &&
                                                 std::ranges::any_of(firsts, &First::names_origin));
  for (std::int64_t s = 0; s < n_sources(); ++s) {
    const std::string& path = store(s).info().path;
    auto sample = std::move(firsts[static_cast<std::size_t>(s)].row);
    if (names_origins_) sample = with_origins(sample, path, consecutive(0, sample->num_rows()));
    obs_->add_source(*sample, path);
  }
  obs_->finish();
}

void Sources::transpose(exec::ThreadPool& pool, const TransposeOptions& options) const {
  TransposeOptions each = options;
  if (!transposed_.empty()) each.memory_bytes /= std::ssize(transposed_);
  for (const TransposedStore* store : transposed_) store->transpose(pool, each);
}

// Library sizes that an export wrote belong to the values.
std::shared_ptr<arrow::Table> Sources::read_own_obs(const SourceRange& range) const {
  const format::RowStore& source = store(range.source);
  const auto obs = source.read_obs(range.begin, range.end);
  std::vector<std::string> dropped{format::kLibrarySizeColumn};
  if (origins_ == Origins::kNone && source.info().format == "shard")
    for (const char* name : {format::shard::kSourceFileColumn, format::shard::kSourceRowColumn})
      dropped.emplace_back(name);
  for (const auto& field : obs->fields())
    if (field->name() != "_index" && !obs_choice_.takes(field->name()))
      dropped.push_back(field->name());
  return drop_columns(*obs, dropped);
}

std::shared_ptr<arrow::Table> Sources::read_obs(const SourceRange& range) const {
  const format::RowStore& source = store(range.source);
  auto obs = read_own_obs(range);
  if (names_origins_) {
    const auto own = consecutive(range.begin, range.n_cells());
    const auto chosen = source.source_rows(own);
    obs = with_origins(obs, source.info().path, chosen.empty() ? own : chosen);
  }
  return obs_->conform(*obs, n_obs_before_ + static_cast<std::size_t>(range.source));
}

std::vector<std::uint64_t> Sources::fingerprints() const {
  std::vector<std::uint64_t> found(static_cast<std::size_t>(n_sources()));
  cells_->step_stores(n_sources(), [&](std::int64_t s) {
    found[static_cast<std::size_t>(s)] = store(s).fingerprint();
  });
  return found;
}

std::shared_ptr<arrow::Table> Sources::read_var() const {
  JoinedVar joined(genes().size());
  std::vector<std::int64_t> own;  // shards of one directory say the same
  for (std::int64_t s = 0; s < n_sources(); ++s)
    if (s == 0 || gene_map_id(s) != gene_map_id(s - 1) ||
        !collection::have_one_gene_table(store(s), store(s - 1)))
      own.push_back(s);
  constexpr std::ptrdiff_t kTablesAtOnce = 64;
  for (auto at = own.begin(); at != own.end();) {
    const auto n = std::min(kTablesAtOnce, own.end() - at);
    std::vector<std::shared_ptr<arrow::Table>> tables(static_cast<std::size_t>(n));
    cells_->step_stores(
        n, [&](std::int64_t i) { tables[static_cast<std::size_t>(i)] = store(at[i]).read_var(); });
    for (const auto& table : tables) {
      joined.add_source(*table, gene_map(*at), store(*at).info().path);
      ++at;
    }
  }
  auto table = joined.finish();
  // Names as joined: repeated ones may have been numbered.
  arrow::StringBuilder names;
  for (const std::string& name : genes().names)
    matrix::check_arrow(names.Append(name), "name a gene");
  const int index = table->schema()->GetFieldIndex(kIndex);
  if (keeps_own_names_ && index >= 0 && !table->GetColumnByName(kOwnNames))
    table = matrix::check_arrow(
        table->AddColumn(index + 1, arrow::field(kOwnNames, arrow::utf8()), table->column(index)),
        "keep the names of genes");
  return matrix::check_arrow(
      table->SetColumn(
          index < 0 ? 0 : index, arrow::field(kIndex, arrow::utf8()),
          std::make_shared<arrow::ChunkedArray>(matrix::check_arrow(names.Finish(), "name genes"))),
      "name genes");
}

double Sources::row_bytes(std::int64_t source) const {
  const format::StoreInfo& info = store(source).info();
  const double entries = info.nnz >= 0 && info.n_rows > 0
                             ? static_cast<double>(info.nnz) / static_cast<double>(info.n_rows)
                             : static_cast<double>(info.n_cols);
  const double width =
      static_cast<double>(sizeof(std::int32_t) + dtype_bytes(exact_decode_dtype(info.value_dtype)));
  return std::max(1.0, entries * width);
}

std::vector<SourceRange> Sources::split(std::int64_t begin, std::int64_t end,
                                        std::int64_t max_cells, std::int64_t max_bytes) const {
  std::vector<SourceRange> pieces;
  for (std::int64_t s = 0; s < n_sources(); ++s) {
    const std::int64_t first = std::max(begin, offsets()[s]) - offsets()[s];
    const std::int64_t last = std::min(end, offsets()[s + 1]) - offsets()[s];
    if (first >= last) continue;
    const auto fitting = static_cast<std::int64_t>(static_cast<double>(max_bytes) / row_bytes(s));
    const std::int64_t step = std::clamp<std::int64_t>(fitting, 1, max_cells);
    for (std::int64_t row = first; row < last; row += step)
      pieces.push_back({s, row, std::min(last, row + step)});
  }
  return pieces;
}

void PassedPages::passed(const SourceRange& range) {
  if (range.source != source_) {
    sources_.store(source_).release_pages();
    source_ = range.source;
    bytes_ = 0;
  }
  const format::StoreInfo& info = sources_.store(range.source).info();
  bytes_ += static_cast<double>(info.bytes_on_disk) * static_cast<double>(range.n_cells()) /
            static_cast<double>(info.n_rows);
  if (bytes_ < static_cast<double>(limit_bytes_)) return;
  sources_.store(range.source).release_pages();
  bytes_ = 0;
}

std::int64_t Sources::plan_bytes(const SourceRange& range) const {
  return static_cast<std::int64_t>(row_bytes(range.source) * static_cast<double>(range.n_cells()));
}

}  // namespace cellfeed::convert
