#include "cellfeed/convert/cache/cached_rows.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/convert/cache/fetched_parts.h"
#include "cellfeed/convert/transpose/transposed_store.h"
#include "cellfeed/format/shard/shard_store.h"

namespace cellfeed::convert {
namespace {

using format::FetchedRows;
using format::RowStore;

// What is said of the files of a cache.
struct CacheName {
  std::string source;  // the file that the rows are of
  std::string layer;
  std::string dir;
};

// Of the rows from first_row on.
[[noreturn]] void throw_of_cache(const CacheName& cache, std::int64_t first_row,
                                 const Error& error) {
  const auto kind = error.kind();
  if (kind == ErrorKind::kCorruptData || kind == ErrorKind::kNotFound)
    throw_error(kind, cache.source,
                "the rows of '{}' that are cached for it are damaged; delete the folder '{}' and "
                "open the file again, which writes them anew ({})",
                cache.layer, cache.dir, error.what());
  // A shard counts its rows from 0.
  if (kind == ErrorKind::kPrecision && first_row > 0)
    throw_error(kind, cache.source, "of the rows from {} on: {}", first_row, error.what());
  throw;
}

template <typename Fn>
decltype(auto) of_cache(const CacheName& cache, std::int64_t first_row, Fn&& fn) {
  try {
    return fn();
  } catch (const Error& error) {
    throw_of_cache(cache, first_row, error);
  }
}

// Each part is of one shard, and its number is that of the shard's first row.
class CachedParts final : public FetchedParts {
 public:
  CachedParts(const CacheName& cache, std::vector<FetchedPart> parts)
      : FetchedParts(std::move(parts)), cache_(cache) {}

 private:
  void with_part(const FetchedPart& part, const std::function<void()>& step) const override {
    of_cache(cache_, part.number, step);
  }
  void decode_part(const FetchedPart& part, std::int64_t first, std::int64_t last,
                   const format::CsrTarget& target) const override {
    of_cache(cache_, part.number, [&] { part.rows->decode(first, last, target); });
  }

  const CacheName& cache_;
};

class CachedRows final : public DescribedRows {
 public:
  CachedRows(std::unique_ptr<format::EntryStore> entries, CacheName cache,
             std::vector<std::unique_ptr<RowStore>> shards)
      : DescribedRows(std::move(entries)), cache_(std::move(cache)), shards_(std::move(shards)) {
    info_ = shards_.front()->info();
    info_.nnz = info_.bytes_on_disk = 0;
    for (const auto& shard : shards_) {
      ends_.push_back((ends_.empty() ? 0 : ends_.back()) + shard->info().n_rows);
      info_.nnz += shard->info().nnz;
      info_.bytes_on_disk += shard->info().bytes_on_disk;
    }
    const format::StoreInfo& own = this->entries().info();
    info_.n_rows = ends_.back();
    if (info_.n_rows != own.n_rows || info_.n_cols != own.n_cols)
      throw_error(ErrorKind::kCorruptData, cache_.dir,
                  "holds {} x {} values, and the matrix has {} x {}", info_.n_rows, info_.n_cols,
                  own.n_rows, own.n_cols);
    info_.path = own.path;
    info_.format = own.format;
    info_.layer = own.layer;
    info_.root = own.root;
    info_.choice = own.choice;
    info_.value_dtype = own.value_dtype;  // of sums the shards may have a wider one
    info_.left_out = own.left_out;
  }

  const format::StoreInfo& info() const override { return info_; }
  std::unique_ptr<FetchedRows> begin(std::span<const std::int64_t> rows,
                                     const format::ReadContext& context) const override {
    std::vector<FetchedPart> parts;
    for_each_shard(rows, [&](std::size_t shard, std::span<const std::int64_t> own,
                             std::vector<std::int64_t> places) {
      parts.push_back({first_row(shard), std::move(places), shards_[shard]->begin(own, context)});
    });
    return std::make_unique<CachedParts>(cache_, std::move(parts));
  }
  format::ReadPlan plan(std::span<const std::int64_t> rows) const override {
    format::ReadPlan plan{.read_ahead_bytes = 0};
    for_each_shard(rows, [&](std::size_t shard, std::span<const std::int64_t> own, auto&&) {
      const format::ReadPlan part = shards_[shard]->plan(own);
      plan.bytes_held += part.bytes_held;
      plan.bytes_inflated += part.bytes_inflated;
      plan.read_ahead_bytes = std::max(plan.read_ahead_bytes, part.read_ahead_bytes);
    });
    return plan;
  }
  void release_pages() const override {
    for (const auto& shard : shards_) shard->release_pages();
  }

 private:
  std::int64_t first_row(std::size_t shard) const { return shard == 0 ? 0 : ends_[shard - 1]; }
  std::size_t shard_of(std::int64_t row) const {
    if (row < 0 || row >= info_.n_rows)
      throw_error(ErrorKind::kOutOfRange, info_.path, "row out of range: {}, rows {}", row,
                  info_.n_rows);
    // All but the last have one size where we wrote them.
    const auto guess = std::min(static_cast<std::size_t>(row / std::max<std::int64_t>(1, ends_[0])),
                                ends_.size() - 1);
    if (row >= first_row(guess) && row < ends_[guess]) return guess;
    return static_cast<std::size_t>(std::ranges::upper_bound(ends_, row) - ends_.begin());
  }

  // fn(shard, rows in the shard, their places in the request), for each shard that has some.
  template <typename Fn>
  void for_each_shard(std::span<const std::int64_t> rows, Fn&& fn) const {
    std::vector<std::vector<std::int64_t>> places(shards_.size());
    for (auto& own : places) own.reserve(2 * rows.size() / shards_.size());
    for (std::size_t i = 0; i < rows.size(); ++i)
      places[shard_of(rows[i])].push_back(static_cast<std::int64_t>(i));
    std::vector<std::int64_t> own;
    for (std::size_t shard = 0; shard < shards_.size(); ++shard) {
      if (places[shard].empty()) continue;
      own.clear();
      for (const std::int64_t place : places[shard]) own.push_back(rows[place] - first_row(shard));
      of_cache(cache_, first_row(shard), [&] { fn(shard, own, std::move(places[shard])); });
    }
  }

  const CacheName cache_;
  std::vector<std::unique_ptr<RowStore>> shards_;
  std::vector<std::int64_t> ends_;  // of the rows of each shard
  format::StoreInfo info_;
};

}  // namespace

std::unique_ptr<RowStore> open_cached_rows(std::unique_ptr<format::EntryStore> entries,
                                           const std::string& dir,
                                           const format::OpenOptions& options) {
  CacheName cache{entries->info().path, entries->info().layer, dir};
  format::OpenOptions of_rows = options;
  of_rows.layer = std::string("X");
  return of_cache(cache, 0, [&]() -> std::unique_ptr<RowStore> {
    auto shards = format::shard::open_shards(dir, of_rows);
    return std::make_unique<CachedRows>(std::move(entries), cache, std::move(shards));
  });
}

}  // namespace cellfeed::convert
