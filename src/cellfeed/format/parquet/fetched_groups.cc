#include "cellfeed/format/parquet/fetched_groups.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "cellfeed/base/error.h"

namespace cellfeed::format::parquet_table {
namespace {

constexpr std::size_t kNotRead = std::numeric_limits<std::size_t>::max();

}  // namespace

WantedRows want_rows(const TableFile& file, std::span<const std::int64_t> rows) {
  std::vector<std::pair<std::int64_t, std::size_t>> order;
  order.reserve(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0 || rows[i] >= file.n_rows())
      throw_error(ErrorKind::kOutOfRange, file.path(), "row out of range: {}, rows {}", rows[i],
                  file.n_rows());
    order.emplace_back(rows[i], i);
  }
  std::ranges::sort(order);
  WantedRows wanted;
  wanted.places.resize(rows.size());
  for (const auto& [row, i] : order) {
    if (wanted.groups.empty() || row >= file.first_rows()[wanted.groups.back().number + 1])
      wanted.groups.push_back({.number = file.group_of(row)});
    WantedRows::Group& group = wanted.groups.back();
    const std::int64_t local = row - file.first_rows()[group.number];
    if (group.rows.empty() || group.rows.back() != local) group.rows.push_back(local);
    wanted.places[i] = {static_cast<std::int32_t>(wanted.groups.size() - 1),
                        static_cast<std::int32_t>(group.rows.size() - 1)};
  }
  return wanted;
}

ReadPlan plan_groups(const GroupMatrix& matrix, const WantedRows& wanted) {
  ReadPlan plan;
  std::int64_t n_ranges = 0, stored_bytes = 0;
  for (const WantedRows::Group& group : wanted.groups) {
    const StoredGroup& stored = matrix.group(group.number);
    plan.bytes_inflated += stored.decoded_bytes;
    n_ranges += std::ssize(stored.ranges);
    stored_bytes += stored.stored_bytes;
  }
  if (matrix.file().source().map().empty() && n_ranges > 0)
    plan.bytes_held = io::RangeReads::planned_bytes(matrix.file().source(), n_ranges, stored_bytes);
  return plan;
}

FetchedGroups::FetchedGroups(const GroupMatrix& matrix, const GroupCache& cache,
                             std::span<const std::int64_t> rows)
    : matrix_(matrix),
      cache_(cache),
      rows_(rows.begin(), rows.end()),
      wanted_(want_rows(matrix.file(), rows)),
      known_(wanted_.groups.size()),
      first_reads_(wanted_.groups.size(), kNotRead) {
  begin_reads();
}

void FetchedGroups::begin_reads() {
  const TableFile& file = matrix_.file();
  std::vector<int> needed;
  for (std::size_t g = 0; g < wanted_.groups.size(); ++g) {
    const int number = wanted_.groups[g].number;
    if ((known_[g] = cache_.find(number))) continue;
    needed.push_back(number);
    if (file.ahead() != nullptr) continue;
    for (const io::ByteRange& range : matrix_.group(number).ranges) {
      const std::size_t read = reads_.add(file.source(), range);
      first_reads_[g] = std::min(first_reads_[g], read);
    }
  }
  if (file.ahead() == nullptr) return reads_.begin();
  file.ahead()->ask(std::ssize(needed), [&](std::int64_t i, std::vector<io::ByteRange>& ranges) {
    const auto& own = matrix_.group(needed[static_cast<std::size_t>(i)]).ranges;
    ranges.insert(ranges.end(), own.begin(), own.end());
  });
}

std::vector<HeldBytes> FetchedGroups::held_of(std::size_t g) const {
  std::vector<HeldBytes> held;
  if (first_reads_[g] == kNotRead) return held;
  const auto& ranges = matrix_.group(wanted_.groups[g].number).ranges;
  for (std::size_t r = 0; r < ranges.size(); ++r)
    held.push_back({ranges[r].offset, reads_.bytes(first_reads_[g] + r)});
  return held;
}

void FetchedGroups::run(std::int64_t task) {
  const auto g = static_cast<std::size_t>(task);
  const int number = wanted_.groups[g].number;
  const StoredGroup& stored = matrix_.group(number);
  GroupCache::Group group = std::move(known_[g]);
  if (!group)
    group = cache_.get(number, stored.decoded_bytes, [&](std::span<std::byte> out) {
      matrix_.decode(number, held_of(g), out);
      bytes_read_ += stored.stored_bytes;
    });
  keep(g, group->bytes.span());
}

}  // namespace cellfeed::format::parquet_table
