#include "cellfeed/collection/collection.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_set>

#include "cellfeed/base/error.h"
#include "cellfeed/base/mix.h"
#include "cellfeed/base/nearest_name.h"
#include "cellfeed/collection/added_obs.h"
#include "cellfeed/collection/gene_keys.h"
#include "cellfeed/collection/left_out.h"
#include "cellfeed/collection/paths.h"
#include "cellfeed/format/open_side_by_side.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::collection {
namespace {

// The names that a collection has for the genes of a store, each once.
std::shared_ptr<const matrix::GeneAxis> rename_genes(const format::RowStore& store,
                                                     const CollectionOptions& options) {
  matrix::GeneAxis axis{keys_of_genes(store, options.var_keys)};
  if (axis.names == store.genes().names) axis.repeated = store.genes().repeated;
  if (options.make_unique)
    make_unique(axis);
  else
    require_unique(axis, store.info().path, options.var_keys.empty() ? kRenameGenes : kOtherVarKey);
  return std::make_shared<const matrix::GeneAxis>(std::move(axis));
}

// One of each file, and of each directory of shards.
std::vector<GeneTable> gene_tables(
    const std::vector<std::shared_ptr<const format::RowStore>>& stores,
    const std::vector<const matrix::GeneAxis*>& axes, const GeneJoin& joined,
    const GeneTable* behind) {
  std::vector<GeneTable> tables;
  for (std::size_t s = 0; s < stores.size(); ++s)
    if (s == 0 || !have_one_gene_table(*stores[s], *stores[s - 1]))
      tables.push_back({axes[s], joined.maps[s].get(), stores[s]->info().path,
                        [store = stores[s].get()] { return store->read_var(); }});
  if (behind) tables.push_back(*behind);
  return tables;
}

}  // namespace

std::string Collection::left_out_text() const {
  std::vector<const format::RowStore*> stores;
  for (const auto& store : stores_) stores.push_back(store.get());
  return collection::left_out_text(stores);
}

std::shared_ptr<const Collection> Collection::open(const std::vector<std::string>& paths,
                                                   const CollectionOptions& options) {
  auto stores = format::open_stores(expand_paths(paths), options.open);
  format::require_obs_columns(stores, options.open.choice);
  return std::make_shared<const Collection>(std::move(stores), options);
}

Collection::Collection(std::vector<std::unique_ptr<format::RowStore>> stores,
                       const CollectionOptions& options)
    : Collection(
          std::vector<std::shared_ptr<const format::RowStore>>(
              std::make_move_iterator(stores.begin()), std::make_move_iterator(stores.end())),
          options) {}

Collection::Collection(std::vector<std::shared_ptr<const format::RowStore>> stores,
                       const CollectionOptions& options)
    : stores_(std::move(stores)),
      cache_(std::make_shared<CacheState>(options.open.cache_bytes)),
      obs_(std::make_shared<ObsColumns>()),
      records_(std::make_shared<Records>()),
      var_keys_(options.var_keys) {
  if (stores_.empty()) throw_invalid("a collection needs at least one file");
  offsets_.push_back(0);
  std::vector<std::string> paths;
  const bool is_renamed = options.make_unique || !options.var_keys.empty();
  std::vector<const matrix::GeneAxis*> axes;
  for (std::size_t s = 0; s < stores_.size(); ++s) {
    const auto& store = *stores_[s];
    offsets_.push_back(offsets_.back() + store.info().n_rows);
    paths.push_back(store.info().path);
    is_remote_ = is_remote_ || !io::is_local(paths.back());
    if (is_renamed) {
      const bool is_known = s > 0 && have_one_gene_table(store, *stores_[s - 1]);
      renamed_.push_back(is_known ? renamed_[s - 1] : rename_genes(store, options));
      axes.push_back(renamed_[s].get());
      continue;
    }
    axes.push_back(&store.genes());
    if (s == 0 || !(axes[s] == axes[s - 1] || axes[s]->names == axes[s - 1]->names))
      require_unique(store.genes(), store.info().path);
  }
  if (format::is_obsm(stores_[0]->info().layer)) require_equal_columns();
  GeneJoin joined = join_genes(axes, paths, options.join, options.genes);
  require_known_repeats(gene_tables(stores_, axes, joined, options.behind.get()));
  missing_genes_text_ = describe_absent(joined, axes, paths);
  missing_genes_ = std::move(joined.absent);
  stores_without_genes_ = std::move(joined.stores_without);
  genes_ = std::move(joined.genes);
  maps_ = std::move(joined.maps);
  change_cache(0, 0);
}

Collection::Collection(const Collection& other)
    : std::enable_shared_from_this<Collection>(),
      stores_(other.stores_),
      offsets_(other.offsets_),
      is_remote_(other.is_remote_),
      selected_(other.selected_),
      matrices_(other.matrices_),
      genes_(other.genes_),
      maps_(other.maps_),
      renamed_(other.renamed_),
      missing_genes_(other.missing_genes_),
      stores_without_genes_(other.stores_without_genes_),
      missing_genes_text_(other.missing_genes_text_),
      allows_mixed_processing_(other.allows_mixed_processing_),
      labels_(other.labels_),
      cache_(other.cache_),
      obs_(other.obs_),
      records_(other.records_),
      var_keys_(other.var_keys_) {}

std::shared_ptr<const Collection> Collection::with_labels(
    std::map<std::string, LabelMap> labels) const {
  if (labels.empty()) return shared_from_this();
  const std::shared_ptr<Collection> copy(new Collection(*this));
  copy->labels_ = std::move(labels);
  copy->obs_ = std::make_shared<ObsColumns>();
  return copy;
}

std::shared_ptr<const Collection> Collection::with_obs(
    const std::shared_ptr<arrow::Table>& columns) const {
  const std::vector<std::string> there = obs_names();
  for (const auto& field : columns->fields())
    if (std::ranges::find(there, field->name()) != there.end())
      throw_invalid("obs has a column '{}' already: rename the one of the table", field->name());
  const AddedColumns added = spread_columns(columns, selected_.get(), n_stored_rows());
  const std::shared_ptr<Collection> copy(new Collection(*this));
  for (std::size_t s = 0; s < stores_.size(); ++s)
    copy->stores_[s] = with_added_obs(stores_[s], added, offsets_[s]);
  copy->obs_ = std::make_shared<ObsColumns>();
  return copy;
}

std::shared_ptr<const Collection> Collection::with_rows(std::span<const std::int64_t> rows) const {
  auto selected = std::make_shared<const RowSelection>(rows, n_rows());
  if (selected_) {
    std::vector<std::int64_t> stored;
    stored.reserve(rows.size());
    for (const std::int64_t row : rows) stored.push_back(selected_->row(row));
    selected = std::make_shared<const RowSelection>(stored, n_stored_rows());
  }
  return selecting(std::move(selected));
}

std::shared_ptr<const Collection> Collection::selecting(
    std::shared_ptr<const RowSelection> rows) const {
  const std::shared_ptr<Collection> copy(new Collection(*this));
  for (NamedMatrix& matrix : copy->matrices_) matrix.cells = matrix.cells->selecting(rows);
  copy->selected_ = std::move(rows);
  return copy;
}

std::shared_ptr<const Collection> Collection::with_genes(
    std::span<const std::int64_t> columns) const {
  const GeneSelection selected = select_genes(genes_, maps_, columns);
  const std::shared_ptr<Collection> copy(new Collection(*this));
  copy->genes_ = selected.genes;
  copy->maps_ = selected.maps;
  const std::unordered_set<std::string_view> kept(copy->genes_.names.begin(),
                                                  copy->genes_.names.end());
  std::erase_if(copy->missing_genes_, [&](const auto& name) { return !kept.contains(name); });
  for (std::size_t m = 1; m < n_matrices(); ++m)
    if (has_first_genes(m)) copy->matrices_[m - 1].cells = matrix(m).with_genes(columns);
  return copy;
}

std::uint64_t Collection::fingerprint() const {
  if (const std::uint64_t known = fingerprint_.load()) return known;
  std::uint64_t hash = 0;
  std::vector<std::uint64_t> of_stores(stores_.size());
  format::open_side_by_side(std::ssize(stores_), !is_remote_, [&](std::int64_t s) {
    of_stores[static_cast<std::size_t>(s)] = stores_[static_cast<std::size_t>(s)]->fingerprint();
  });
  for (const std::uint64_t of_store : of_stores) hash = mix(hash, of_store);
  for (const auto& name : genes_.names) hash = mix(hash, name);
  // They say which column of a store goes where.
  for (const auto& key : var_keys_) hash = mix(hash, key);
  for (const auto& [name, map] : labels_) {
    hash = mix(hash, name);
    hash = mix(hash, map.labels ? std::uint64_t{1} + map.labels->size() : 0);
    if (map.labels)
      for (const auto& label : *map.labels) hash = mix(hash, matrix::category_text(label));
    hash = mix(hash, std::uint64_t{map.unknown.has_value()});
    if (map.unknown) hash = mix(hash, matrix::category_text(*map.unknown));
  }
  for (const NamedMatrix& matrix : matrices_)
    hash = mix(mix(hash, std::string_view(matrix.name)), matrix.cells->fingerprint());
  if (selected_) hash = mix(hash, selected_->hash());
  fingerprint_ = std::max<std::uint64_t>(1, hash);
  return fingerprint_;
}

std::span<const std::int32_t> Collection::gene_map(std::int64_t s) const {
  return maps_[s] ? std::span<const std::int32_t>(*maps_[s]) : std::span<const std::int32_t>();
}

RowPlace Collection::locate(std::int64_t row) const {
  if (selected_) row = selected_->row(row);
  if (stores_.size() == 1) return {0, row};
  const auto it = std::upper_bound(offsets_.begin(), offsets_.end(), row);
  const auto s = static_cast<std::int32_t>(it - offsets_.begin()) - 1;
  return {s, row - offsets_[s]};
}

void Collection::step_stores(std::int64_t n, const std::function<void(std::int64_t)>& step) const {
  format::step_side_by_side(n, !is_remote_, step);
}

bool Collection::is_chunked() const {
  const auto stores_are = [](const Collection& cells) {
    return std::ranges::any_of(cells.stores_,
                               [](const auto& store) { return store->info().rows_per_chunk > 1; });
  };
  return stores_are(*this) || std::ranges::any_of(matrices_, [&](const NamedMatrix& matrix) {
           return stores_are(*matrix.cells);
         });
}

std::int64_t Collection::inflated_bytes() const {
  std::int64_t bytes = 0;
  for (std::size_t m = 0; m < n_matrices(); ++m)
    for (const auto& store : matrix(m).stores_) bytes += store->info().inflated_bytes;
  return bytes;
}

std::int64_t Collection::scratch_bytes() const {
  std::int64_t bytes = 0;
  for (std::size_t m = 0; m < n_matrices(); ++m)
    for (const auto& store : matrix(m).stores_)
      bytes = std::max(bytes, store->info().scratch_bytes);
  return bytes;
}

class CacheShare {
 public:
  CacheShare(std::shared_ptr<const Collection> cells, std::int64_t bytes)
      : cells_(std::move(cells)), bytes_(bytes) {
    cells_->change_cache(bytes_, 1);
  }
  ~CacheShare() { cells_->change_cache(-bytes_, -1); }
  CacheShare(const CacheShare&) = delete;
  CacheShare& operator=(const CacheShare&) = delete;

 private:
  const std::shared_ptr<const Collection> cells_;
  const std::int64_t bytes_;
};

std::shared_ptr<const CacheShare> Collection::reserve_cache(std::int64_t bytes) const {
  return std::make_shared<const CacheShare>(shared_from_this(), bytes);
}

// Among the stores by what they hold.
void Collection::change_cache(std::int64_t bytes, int shares) const {
  const auto total = static_cast<double>(inflated_bytes());
  const std::lock_guard lock(cache_->mutex);
  cache_->reserved_bytes += bytes;
  cache_->n_shares += shares;
  const auto all =
      static_cast<double>(cache_->n_shares > 0 ? cache_->reserved_bytes : cache_->own_bytes);
  for (std::size_t m = 0; m < n_matrices(); ++m)
    for (const auto& store : matrix(m).stores_)
      if (const std::int64_t inflated = store->info().inflated_bytes; inflated > 0)
        store->set_cache_bytes(
            static_cast<std::int64_t>(all * static_cast<double>(inflated) / total));
}

std::vector<std::string> Collection::obs_names() const {
  std::vector<std::vector<std::string>> of_stores(stores_.size());
  step_stores(n_stores(), [&](std::int64_t s) {
    of_stores[static_cast<std::size_t>(s)] = store(s).obs_names();
  });
  std::vector<std::string> names;
  for (const auto& own : of_stores)
    for (const auto& name : own)
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  return names;
}

std::shared_ptr<const JoinedColumn> Collection::obs_column(const std::string& name) const {
  auto column = obs_column_as_rounded(name);
  column->require_exact();
  return column;
}

// No lock is held while columns are read, as other threads do that. Two threads that ask at once
// both read, and get the same.
std::shared_ptr<const JoinedColumn> Collection::obs_column_as_rounded(
    const std::string& name) const {
  {
    const std::lock_guard lock(obs_->mutex);
    if (const auto it = obs_->by_name.find(name); it != obs_->by_name.end()) return it->second;
  }
  std::vector<std::shared_ptr<const matrix::FixedColumn>> columns(stores_.size());
  std::vector<std::string> paths;
  for (const auto& store : stores_) paths.push_back(store->info().path);
  format::open_side_by_side(std::ssize(stores_), !is_remote_, [&](std::int64_t i) {
    const auto s = static_cast<std::size_t>(i);
    // Not by the list of names, for which a shard reads its whole table.
    try {
      columns[s] = std::make_shared<const matrix::FixedColumn>(stores_[s]->obs_column(name));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kNoSuchKey) throw;
      return;
    }
    if (columns[s]->length != stores_[s]->info().n_rows)
      throw_error(ErrorKind::kCorruptData, paths[s], "obs column '{}' has {} values for {} cells",
                  name, columns[s]->length, stores_[s]->info().n_rows);
  });
  const bool found =
      std::ranges::any_of(columns, [](const auto& column) { return column != nullptr; });
  if (!found)
    throw Error(ErrorKind::kNoSuchKey,
                fmt::format("no file has obs column '{}'{}", name, suggestion(name, obs_names())));
  const auto map = labels_.find(name);
  auto column = std::make_shared<const JoinedColumn>(
      name, std::move(columns), paths, map == labels_.end() ? LabelMap{} : map->second);
  const std::lock_guard lock(obs_->mutex);
  return obs_->by_name.emplace(name, std::move(column)).first->second;
}

}  // namespace cellfeed::collection
