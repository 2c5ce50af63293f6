#include "cellfeed/convert/sources.h"

#include <arrow/api.h>

#include <algorithm>
#include <numeric>

#include "cellfeed/collection/gene_keys.h"
#include "cellfeed/collection/left_out.h"
#include "cellfeed/collection/paths.h"
#include "cellfeed/collection/repeated_genes.h"
#include "cellfeed/convert/arrow_result.h"
#include "cellfeed/convert/cell_origins.h"
#include "cellfeed/convert/row_reader.h"
#include "cellfeed/convert/selected_store.h"
#include "cellfeed/matrix/obs_union.h"

namespace cellfeed::convert {
namespace {

constexpr const char* kIndex = "_index";
// Of var, where another column names the genes.
constexpr const char* kOwnNames = "var_names";

std::string join_processing(const std::vector<std::unique_ptr<format::RowStore>>& stores) {
  const std::string first = stores.front()->processing().json;
  for (const auto& store : stores) {
    const std::string other = store->processing().json;
    if (other != first)
      throw_invalid(
          "the inputs hold values that were processed differently, and would be mixed: '{}' says "
          "{}, '{}' says {}",
          stores.front()->info().path, first, store->info().path, other);
  }
  return first;
}

std::vector<std::int64_t> consecutive(std::int64_t first, std::int64_t n) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(n));
  std::iota(rows.begin(), rows.end(), first);
  return rows;
}

// Columns of obsm have no names to be joined by.
void require_equal_widths(const std::vector<std::unique_ptr<format::RowStore>>& stores) {
  const format::StoreInfo& first = stores.front()->info();
  for (const auto& store : stores)
    if (const auto& info = store->info(); info.n_cols != first.n_cols)
      throw_error(ErrorKind::kInvalidArgument, info.path, "'{}' has {} columns, and {} in {}",
                  info.layer, info.n_cols, first.n_cols, first.path);
}

// Library sizes that an export wrote belong to the values.
std::shared_ptr<arrow::Table> read_own_obs(const format::RowStore& store, std::int64_t begin,
                                           std::int64_t end) {
  const auto obs = store.read_obs(begin, end);
  return obs->GetColumnByName(format::kLibrarySizeColumn)
             ? drop_columns(*obs, {format::kLibrarySizeColumn})
             : obs;
}

}  // namespace

std::string Sources::left_out_text() const {
  std::vector<const format::RowStore*> stores;
  for (const auto& store : stores_) stores.push_back(store.get());
  return collection::left_out_text(stores);
}

Sources Sources::open(const SourceOptions& options) {
  collection::join_from_name(options.join, !options.genes.empty());  // before anything is opened
  const std::vector<std::string> paths = collection::expand_paths(options.paths);
  if (paths.empty()) throw_invalid("there is nothing to read: no input was given");
  if (options.layer == format::kNoLayer)
    throw_invalid(
        "layer 'none' is obs alone, and what is written needs a matrix: name one "
        "(`cellfeed info FILE` lists them)");
  Sources sources;
  format::OpenOptions open;
  open.layer = options.layer;
  open.allow_external = options.allow_external;
  open.genome = options.genome;
  open.feature_type = options.feature_type;
  open.cache_bytes =
      std::clamp<std::int64_t>(options.cache_bytes / std::ssize(paths), 4 << 20, 64 << 20);
  open.row_maker = options.row_maker;
  if (!open.row_maker)
    open.row_maker = [&](std::unique_ptr<format::EntryStore> entries, const format::OpenOptions&) {
      auto store = std::make_unique<TransposedStore>(std::move(entries));
      sources.transposed_.push_back(store.get());
      std::vector<std::unique_ptr<format::RowStore>> stores;
      stores.push_back(std::move(store));
      return stores;
    };
  for (auto& store : format::open_stores(paths, open)) sources.stores_.push_back(std::move(store));
  if (options.rows) sources.select(*options.rows);
  sources.join(options);
  return sources;
}

void Sources::select(const std::vector<std::int64_t>& rows) {
  std::vector<std::shared_ptr<const format::RowStore>> stores;
  std::vector<std::int64_t> ends;
  for (auto& store : stores_) {
    ends.push_back((ends.empty() ? 0 : ends.back()) + store->info().n_rows);
    stores.push_back(std::move(store));
  }
  if (rows.empty() || rows.back() >= ends.back())
    throw_invalid("rows of {} cells were chosen, and the inputs hold {}", rows.size(), ends.back());
  stores_ = select_rows(stores, std::ssize(rows), [&](std::int64_t i) {
    const auto store = std::upper_bound(ends.begin(), ends.end(), rows[i]) - ends.begin();
    return collection::RowPlace{static_cast<std::int32_t>(store),
                                rows[i] - (store == 0 ? 0 : ends[store - 1])};
  });
}

Sources Sources::over(std::vector<std::unique_ptr<format::RowStore>> stores,
                      const SourceOptions& options) {
  Sources sources;
  sources.stores_ = std::move(stores);
  sources.join(options);
  return sources;
}

void Sources::join(const SourceOptions& options) {
  const collection::Join join = collection::join_from_name(options.join, !options.genes.empty());
  processing_json_ = join_processing(stores_);
  keeps_own_names_ = options.keeps_own_names || !options.var_keys.empty();
  std::vector<const matrix::GeneAxis*> axes;
  std::vector<collection::NamedStore> named;
  std::vector<std::string> store_paths;
  std::vector<DType> dtypes;
  offsets_ = {0};
  obs_ = std::make_unique<TableUnion>("obs");
  names_origins_ = !options.is_beside &&
                   std::any_of(stores_.begin(), stores_.end(),
                               [](const auto& store) { return names_origins(store->obs_names()); });
  for (const auto& store : stores_) {
    const format::StoreInfo& info = store->info();
    store_paths.push_back(info.path);
    offsets_.push_back(offsets_.back() + info.n_rows);
    auto axis = std::make_shared<matrix::GeneAxis>(
        matrix::GeneAxis{collection::keys_of_genes(*store, options.var_keys)});
    collection::RepeatedNames repeats;
    if (options.make_unique)
      repeats = collection::make_unique(*axis);
    else
      collection::require_unique(
          *axis, info.path,
          options.var_keys.empty() ? collection::kRenameGenes : collection::kOtherVarKey);
    axes.push_back(axis.get());
    named.push_back({store.get(), axis.get(), std::move(repeats)});
    axes_.push_back(std::move(axis));
    dtypes.push_back(info.value_dtype);
    if (options.is_beside) continue;
    auto sample = read_own_obs(*store, 0, std::min<std::int64_t>(1, info.n_rows));
    if (names_origins_)
      sample = with_origins(sample, info.path, consecutive(0, sample->num_rows()));
    obs_->add_source(*sample, info.path);
  }
  if (!options.is_beside) obs_->finish();
  if (format::is_obsm(options.layer)) require_equal_widths(stores_);
  value_dtype_ = matrix::unite_dtypes(dtypes);
  genes_ = collection::join_genes(axes, store_paths, join, options.genes);
  collection::require_known_repeats(genes_, named);
  absent_genes_text_ = collection::describe_absent(genes_, axes, store_paths);
  if (n_cells() == 0)
    throw Error(ErrorKind::kInvalidArgument, "holds no cells, so there is nothing to write",
                store_paths.front());
  if (genes().size() == 0)
    throw Error(ErrorKind::kInvalidArgument,
                join == collection::Join::kInner
                    ? "shares no gene with the other inputs; use join 'outer' to keep all genes"
                    : "holds no genes, so there is nothing to write",
                store_paths.front());
}

std::string Sources::path_by_columns() const {
  return transposed_.empty() ? std::string() : transposed_.front()->info().path;
}

void Sources::transpose(exec::ThreadPool& pool, const TransposeOptions& options) {
  TransposeOptions each = options;
  if (!transposed_.empty()) each.memory_bytes /= std::ssize(transposed_);
  for (TransposedStore* store : transposed_) store->transpose(pool, each);
}

std::span<const std::int32_t> Sources::gene_map(std::int64_t source) const {
  const auto& map = genes_.maps[source];
  return map ? std::span<const std::int32_t>(*map) : std::span<const std::int32_t>();
}

std::shared_ptr<arrow::Table> Sources::read_obs(const SourceRange& range) const {
  const format::RowStore& source = store(range.source);
  auto rows = read_own_obs(source, range.begin, range.end);
  if (names_origins_)
    rows = with_origins(rows, source.info().path, consecutive(range.begin, range.n_cells()));
  return obs_->conform(*rows, static_cast<std::size_t>(range.source));
}

std::shared_ptr<arrow::Table> Sources::read_var() const {
  // Rows of each source's var that some joined gene comes from, and where they end up.
  std::vector<std::vector<std::int64_t>> rows(stores_.size());
  std::vector<std::vector<std::int64_t>> genes(stores_.size());
  std::vector<bool> found(genes_.genes.names.size(), false);
  for (std::size_t s = 0; s < stores_.size(); ++s) {
    const auto map = gene_map(static_cast<std::int64_t>(s));
    if (s > 0 && genes_.maps[s] == genes_.maps[s - 1]) continue;
    for (std::int64_t column = 0; column < axes_[s]->size(); ++column) {
      const std::int64_t gene = map.empty() ? column : map[column];
      if (gene < 0 || found[gene]) continue;
      found[gene] = true;
      rows[s].push_back(column);
      genes[s].push_back(gene);
    }
  }
  TableUnion joined("var");
  std::vector<std::shared_ptr<arrow::Table>> parts;
  std::vector<std::int64_t> order;
  for (std::size_t s = 0; s < stores_.size(); ++s) {
    if (rows[s].empty()) continue;
    parts.push_back(take_rows(*stores_[s]->read_var(), rows[s]));
    joined.add_source(*parts.back(), stores_[s]->info().path);
    order.insert(order.end(), genes[s].begin(), genes[s].end());
  }
  arrow::StringBuilder absent;
  for (std::size_t gene = 0; gene < found.size(); ++gene) {
    if (found[gene]) continue;
    check_arrow(absent.Append(genes_.genes.names[gene]), "name a gene");
    order.push_back(static_cast<std::int64_t>(gene));
  }
  if (absent.length() > 0) {
    parts.push_back(arrow::Table::Make(arrow::schema({arrow::field(kIndex, arrow::utf8())}),
                                       {check_arrow(absent.Finish(), "name genes")}));
    joined.add_source(*parts.back(), "genes that no input has");
  }
  joined.finish();
  for (std::size_t p = 0; p < parts.size(); ++p) parts[p] = joined.conform(*parts[p], p);
  auto table = check_arrow(arrow::ConcatenateTables(parts), "join the gene tables");
  std::vector<std::int64_t> position(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) position[order[i]] = static_cast<std::int64_t>(i);
  table = take_rows(*table, position);
  // Names as joined: repeated ones may have been numbered.
  arrow::StringBuilder names;
  for (const std::string& name : genes_.genes.names) check_arrow(names.Append(name), "name a gene");
  const int index = table->schema()->GetFieldIndex(kIndex);
  if (keeps_own_names_ && index >= 0 && !table->GetColumnByName(kOwnNames))
    table = check_arrow(
        table->AddColumn(index + 1, arrow::field(kOwnNames, arrow::utf8()), table->column(index)),
        "keep the names of genes");
  return check_arrow(table->SetColumn(index < 0 ? 0 : index, arrow::field(kIndex, arrow::utf8()),
                                      std::make_shared<arrow::ChunkedArray>(
                                          check_arrow(names.Finish(), "name genes"))),
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
    const std::int64_t first = std::max(begin, offsets_[s]) - offsets_[s];
    const std::int64_t last = std::min(end, offsets_[s + 1]) - offsets_[s];
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
