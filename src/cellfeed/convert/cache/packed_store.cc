#include "cellfeed/convert/cache/packed_store.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/collection/added_obs.h"
#include "cellfeed/collection/paths.h"
#include "cellfeed/convert/cache/packed_fetch.h"
#include "cellfeed/format/open_side_by_side.h"
#include "cellfeed/format/shard/packed_rows.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::convert {

using format::RowStore;

constexpr std::chrono::milliseconds kLook{100};

// Rows of a request by where they are read from.
struct PackedStore::Split {
  std::vector<std::int64_t> source_rows, source_places;
  std::vector<std::int64_t> segments;               // that rows are kept in
  std::vector<format::shard::RowOfFile> kept_rows;  // file: of the segments here
  std::vector<std::int64_t> kept_places;
};

PackedStore::PackedStore(std::shared_ptr<const RowStore> source, std::shared_ptr<PackedLog> log,
                         Shards shards)
    : ForwardingStore(std::move(source)),
      log_(std::move(log)),
      info_(store_->info()),
      complete_info_(info_),
      writes_shards_(shards == Shards::kAreWritten && log_->is_writable()) {
  // Whether reading one row inflates others stays as it is: orders follow from it.
  complete_info_.inflated_bytes = complete_info_.scratch_bytes = 0;
}

void PackedStore::require_row(std::int64_t row) const {
  if (row < 0 || row >= info_.n_rows)
    throw_error(ErrorKind::kOutOfRange, info_.path, "row out of range: {}, rows {}", row,
                info_.n_rows);
}

PackedStore::Split PackedStore::split(std::span<const std::int64_t> rows) const {
  Split split;
  split.kept_rows.reserve(rows.size());
  split.kept_places.reserve(rows.size());
  std::map<std::int64_t, std::uint32_t> files;  // of the segments
  std::int64_t last_segment = -1;
  std::uint32_t last_file = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    require_row(rows[i]);
    const PackedLog::Place place = log_->find(rows[i]);
    if (place.segment < 0) {
      split.source_rows.push_back(rows[i]);
      split.source_places.push_back(static_cast<std::int64_t>(i));
      continue;
    }
    if (place.segment != last_segment) {
      last_segment = place.segment;
      const auto [known, is_new] =
          files.try_emplace(last_segment, static_cast<std::uint32_t>(split.segments.size()));
      if (is_new) split.segments.push_back(last_segment);
      last_file = known->second;
    }
    split.kept_rows.push_back({last_file, place.row});
    split.kept_places.push_back(static_cast<std::int64_t>(i));
  }
  return split;
}

// Null where one of the segments is gone, or was damaged since it was opened: its rows are to be
// found anew.
std::unique_ptr<format::FetchedRows> PackedStore::begin_kept(const Split& split) const {
  std::vector<std::shared_ptr<const format::shard::CellsFile>> files;
  for (const std::int64_t segment : split.segments) {
    files.push_back(log_->segment(segment));
    if (!files.back()) return nullptr;
  }
  try {
    return format::shard::begin_packed(files, split.kept_rows);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kCancelled || !drop_damaged(split, files)) throw;
    return nullptr;
  }
}

// Whether there was one.
bool PackedStore::drop_damaged(
    const Split& split,
    const std::vector<std::shared_ptr<const format::shard::CellsFile>>& files) const {
  bool has_dropped = false;
  for (std::uint32_t file = 0; file < files.size(); ++file) {
    std::vector<format::shard::RowOfFile> rows;
    for (const auto& row : split.kept_rows)
      if (row.file == file) rows.push_back({0, row.row});
    try {
      format::shard::begin_packed({files[file]}, rows);
    } catch (const Error&) {
      log_->drop(split.segments[file]);
      has_dropped = true;
    }
  }
  return has_dropped;
}

std::unique_ptr<format::FetchedRows> PackedStore::begin(std::span<const std::int64_t> rows,
                                                        const format::ReadContext& context) const {
  log_->note_reading();
  if (log_->is_complete()) {
    if (!has_let_go_.exchange(true)) store_->set_cache_bytes(0);
    begin_shards();
  } else {
    log_->look_for_more();
  }
  Split found = split(rows);
  std::vector<FetchedPart> parts;
  std::vector<std::int64_t> segments;
  if (!found.kept_rows.empty()) {
    auto kept = begin_kept(found);
    if (!kept) return begin(rows, context);
    for (const auto& row : found.kept_rows) segments.push_back(found.segments[row.file]);
    parts.push_back({PackedFetch::kKept, std::move(found.kept_places), std::move(kept)});
  }
  if (!found.source_rows.empty())
    parts.push_back({PackedFetch::kOfSource, std::move(found.source_places),
                     store_->begin(found.source_rows, context)});
  return std::make_unique<PackedFetch>(*store_, *log_, rows, std::move(segments), std::move(parts));
}

// By the process that opened the store: a worker of its own may end at any time.
void PackedStore::begin_shards() const {
  if (!writes_shards_ || log_->has_shards() || exec::fork_generation() != generation_) return;
  shards_.get([this] { return std::make_unique<PackedShards>(without_shards(), log_); });
}

std::string PackedStore::shards_dir(const std::stop_token& stop) const {
  log_->flush();
  log_->look_now();
  if (!log_->is_complete()) return "";
  // Removed under this process, it is not made again.
  if (!io::is_directory(log_->place().folder())) return "";
  while (!log_->has_whole_shards()) {
    if (!log_->is_writable()) return "";
    if (write_packed_shards(without_shards(), *log_, stop))
      return log_->has_shards() ? log_->shards_dir() : "";
    if (stop.stop_requested()) throw Error(ErrorKind::kCancelled, "stopped before the end");
    std::this_thread::sleep_for(kLook);
  }
  return log_->shards_dir();
}

format::ReadPlan PackedStore::plan(std::span<const std::int64_t> rows) const {
  std::vector<std::int64_t> of_source;
  for (const std::int64_t row : rows) {
    require_row(row);
    if (log_->find(row).segment < 0) of_source.push_back(row);
  }
  return of_source.empty() ? format::ReadPlan{} : store_->plan(of_source);
}

bool is_worth_packing(const RowStore& store) {
  const format::StoreInfo& info = store.info();
  if (info.n_rows == 0 || info.n_cols == 0 || info.layer == format::kNoLayer) return false;
  if (info.compression == "packed") return false;
  return info.inflated_bytes > 0 || !io::is_local(info.path);
}

namespace {

// version: from before it was opened.
std::shared_ptr<const PackedStore> keep_rows(const std::shared_ptr<const RowStore>& store,
                                             const FileVersion& version, const FileVersion& var,
                                             const std::string& dir,
                                             const PackedLogOptions& options) {
  require_version(version, "while it was opened");
  const format::StoreInfo& info = store->info();
  const PackedPlace place = packed_place(*store, version, var, dir);
  const PackedMatrix matrix{.identity = place.identity,
                            .n_rows = info.n_rows,
                            .n_genes = info.n_cols,
                            .value_dtype = info.value_dtype};
  return std::make_shared<PackedStore>(
      store, std::make_shared<PackedLog>(place, version, matrix, options));
}

// Of those that are files, and of a table of genes beside them.
std::map<std::string, FileVersion> versions_of(const std::vector<std::string>& paths,
                                               const std::string& var) {
  std::vector<std::string> all = paths;
  if (!var.empty()) all.push_back(var);
  std::vector<std::optional<FileVersion>> seen(all.size());
  format::wait_side_by_side(std::ssize(all), std::ranges::all_of(all, io::is_local),
                            [&](std::int64_t i) {
                              const std::string& path = all[static_cast<std::size_t>(i)];
                              if (io::status_of(path).is_file())
                                seen[static_cast<std::size_t>(i)] = look_at_settled_file(path);
                            });
  std::map<std::string, FileVersion> versions;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (seen[i]) versions.emplace(all[i], std::move(*seen[i]));
  return versions;
}

}  // namespace

std::shared_ptr<const collection::Collection> open_packed(
    const std::vector<std::string>& paths, const collection::CollectionOptions& options,
    const std::string& dir, const PackedLogOptions& log) {
  const std::vector<std::string> files = collection::expand_paths(paths);
  const bool is_local = std::ranges::all_of(files, io::is_local);
  const std::map<std::string, FileVersion> versions =
      versions_of(files, options.open.choice.table.var);
  format::OpenOptions open = options.open;
  open.looks_at_files = true;
  PackedLogOptions of_log = log;
  of_log.verifies = open.verify != "never";
  const auto known_var = versions.find(options.open.choice.table.var);
  const FileVersion var = known_var == versions.end() ? FileVersion{} : known_var->second;
  std::vector<std::shared_ptr<const RowStore>> stores;
  for (auto& opened : format::open_stores(files, open)) stores.push_back(std::move(opened));
  if (!var.path.empty()) require_version(var, "while it was read");
  format::wait_side_by_side(std::ssize(stores), is_local, [&](std::int64_t i) {
    std::shared_ptr<const RowStore>& store = stores[static_cast<std::size_t>(i)];
    const auto known = versions.find(store->info().path);
    const auto version =
        known != versions.end() ? std::optional(known->second) : version_of_folder(*store);
    if (version && is_worth_packing(*store)) store = keep_rows(store, *version, var, dir, of_log);
  });
  return std::make_shared<const collection::Collection>(std::move(stores), options);
}

namespace {

template <typename Visit>
void for_each_packed(const collection::Collection& cells, Visit&& visit) {
  for (std::size_t m = 0; m < cells.n_matrices(); ++m)
    for (std::int64_t s = 0; s < cells.matrix(m).n_stores(); ++s)
      if (const auto* store = dynamic_cast<const PackedStore*>(
              &collection::without_added_obs(cells.matrix(m).store(s))))
        visit(*store);
}

}  // namespace

void flush_packed(const collection::Collection& cells) {
  for_each_packed(cells, [](const PackedStore& store) { store.log().flush(); });
}

std::vector<std::string> packed_shards(const collection::Collection& cells,
                                       const std::stop_token& stop) {
  std::vector<std::string> dirs;
  for_each_packed(cells, [&](const PackedStore& store) {
    if (std::string dir = store.shards_dir(stop); !dir.empty()) dirs.push_back(std::move(dir));
  });
  return dirs;
}

std::vector<std::string> take_packed_warnings(const collection::Collection& cells) {
  std::vector<std::string> warnings;
  for_each_packed(cells, [&](const PackedStore& store) {
    if (std::string text = store.log().take_warning(); !text.empty())
      warnings.push_back(std::move(text));
  });
  return warnings;
}

}  // namespace cellfeed::convert
