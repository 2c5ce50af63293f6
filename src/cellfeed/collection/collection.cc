#include "cellfeed/collection/collection.h"

#include <algorithm>

#include "cellfeed/base/error.h"
#include "cellfeed/collection/paths.h"

namespace cellfeed::collection {
namespace {

constexpr std::uint64_t kMix = 0x9E3779B97F4A7C15u;

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * kMix;
  return hash ^ (hash >> 29);
}

std::string joined_with_commas(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 20;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i)
    text += (i ? ", " : "") + names[i];
  if (names.size() > kShown) text += fmt::format(", ... ({} in all)", names.size());
  return text.empty() ? "none" : text;
}

}  // namespace

std::shared_ptr<const Collection> Collection::open(const std::vector<std::string>& paths,
                                                   const CollectionOptions& options) {
  std::vector<std::unique_ptr<format::RowStore>> stores;
  for (const std::string& path : expand_paths(paths))
    for (auto& store : format::open_stores(path, options.open)) stores.push_back(std::move(store));
  return std::make_shared<const Collection>(std::move(stores), options);
}

Collection::Collection(std::vector<std::unique_ptr<format::RowStore>> stores,
                       const CollectionOptions& options)
    : stores_(std::move(stores)) {
  if (stores_.empty()) throw_invalid("a collection needs at least one file");
  offsets_.push_back(0);
  std::vector<std::string> paths;
  std::vector<matrix::GeneAxis> renamed(options.make_unique ? stores_.size() : 0);
  std::vector<const matrix::GeneAxis*> axes;
  for (std::size_t s = 0; s < stores_.size(); ++s) {
    const auto& store = *stores_[s];
    offsets_.push_back(offsets_.back() + store.info().n_rows);
    paths.push_back(store.info().path);
    axes.push_back(&store.genes());
    if (options.make_unique) {
      renamed[s] = store.genes();
      make_unique(renamed[s]);
      axes.back() = &renamed[s];
    } else if (s == 0 || !(axes[s] == axes[s - 1] || axes[s]->names == axes[s - 1]->names)) {
      require_unique(store.genes(), store.info().path);
    }
    fingerprint_ = mix(fingerprint_, store.fingerprint());
  }
  GeneJoin joined = join_genes(axes, paths, options.join, options.genes);
  genes_ = std::move(joined.genes);
  maps_ = std::move(joined.maps);
  for (const auto& name : genes_.names)
    for (const char c : name) fingerprint_ = mix(fingerprint_, static_cast<unsigned char>(c));
}

std::span<const std::int32_t> Collection::gene_map(std::int64_t s) const {
  return maps_[s] ? std::span<const std::int32_t>(*maps_[s]) : std::span<const std::int32_t>();
}

RowPlace Collection::locate(std::int64_t row) const {
  if (stores_.size() == 1) return {0, row};
  const auto it = std::upper_bound(offsets_.begin(), offsets_.end(), row);
  const auto s = static_cast<std::int32_t>(it - offsets_.begin()) - 1;
  return {s, row - offsets_[s]};
}

std::int64_t Collection::inflated_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& store : stores_) bytes += store->info().inflated_bytes;
  return bytes;
}

void Collection::set_cache_bytes(std::int64_t bytes) const {
  const auto total = static_cast<double>(inflated_bytes());
  for (const auto& store : stores_)
    if (const std::int64_t inflated = store->info().inflated_bytes; inflated > 0)
      store->set_cache_bytes(static_cast<std::int64_t>(static_cast<double>(bytes) *
                                                       static_cast<double>(inflated) / total));
}

std::vector<std::string> Collection::obs_names() const {
  std::vector<std::string> names;
  for (const auto& store : stores_)
    for (const auto& name : store->obs_names())
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  return names;
}

std::shared_ptr<const JoinedColumn> Collection::obs_column(const std::string& name) const {
  const std::lock_guard lock(obs_mutex_);
  if (const auto it = obs_.find(name); it != obs_.end()) return it->second;
  std::vector<std::shared_ptr<const matrix::FixedColumn>> columns(stores_.size());
  std::vector<std::string> paths;
  bool found = false;
  for (std::size_t s = 0; s < stores_.size(); ++s) {
    paths.push_back(stores_[s]->info().path);
    const auto names = stores_[s]->obs_names();
    if (std::find(names.begin(), names.end(), name) == names.end()) continue;
    columns[s] = std::make_shared<const matrix::FixedColumn>(stores_[s]->obs_column(name));
    if (columns[s]->length != stores_[s]->info().n_rows)
      throw_error(ErrorKind::kCorruptData, paths[s], "obs column '{}' has {} values for {} cells",
                  name, columns[s]->length, stores_[s]->info().n_rows);
    found = true;
  }
  if (!found)
    throw Error(ErrorKind::kNoSuchKey,
                fmt::format("no file has this obs column; there are: {}: '{}'",
                            joined_with_commas(obs_names()), name));
  auto column = std::make_shared<const JoinedColumn>(name, std::move(columns), paths);
  obs_.emplace(name, column);
  return column;
}

}  // namespace cellfeed::collection
