// FetchedGroups: rows of some row groups on their way: each group is read and decoded once, or
// found in the cache, what the rows need is copied, and the rest is let go. Lifetime: matrix and
// cache outlive it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cellfeed/format/parquet/group_matrix.h"
#include "cellfeed/format/row_store.h"
#include "cellfeed/io/range_reads.h"

namespace cellfeed::format::parquet_table {

// Which rows of which groups are wanted. Pure.
struct WantedRows {
  struct Group {
    int number = 0;
    std::vector<std::int64_t> rows{};  // in the group: ascending, each once
  };
  // Where a row of the request is: groups[group].rows[row].
  struct Place {
    std::int32_t group = 0;
    std::int32_t row = 0;
  };
  std::vector<Group> groups;  // ascending
  std::vector<Place> places;
};

// Throws kOutOfRange.
WantedRows want_rows(const TableFile& file, std::span<const std::int64_t> rows);

// What reading and decoding the groups takes, but for what is kept of the rows.
ReadPlan plan_groups(const GroupMatrix& matrix, const WantedRows& wanted);

class FetchedGroups : public FetchedRows {
 public:
  std::int64_t n_rows() const final { return std::ssize(rows_); }
  void wait() final { reads_.wait(); }
  std::int64_t n_tasks() const final { return std::ssize(wanted_.groups); }
  void run(std::int64_t task) final;
  std::int64_t bytes_read() const final { return bytes_read_; }
  std::int64_t bytes_held() const final { return reads_.bytes_held() + bytes_kept_; }

 protected:
  FetchedGroups(const GroupMatrix& matrix, const GroupCache& cache,
                std::span<const std::int64_t> rows);

  const WantedRows& wanted() const { return wanted_; }
  std::span<const std::int64_t> rows() const { return rows_; }
  void add_bytes_kept(std::int64_t bytes) { bytes_kept_ += bytes; }
  // Copies what the rows of wanted().groups[g] need. Of different groups at once.
  virtual void keep(std::size_t g, std::span<const std::byte> decoded) = 0;

 private:
  void begin_reads();
  std::vector<HeldBytes> held_of(std::size_t g) const;

  const GroupMatrix& matrix_;
  const GroupCache& cache_;
  const std::vector<std::int64_t> rows_;
  const WantedRows wanted_;
  // Of each group that was in the cache: kept until it is copied, as its bytes are not read. What
  // the cache drops meanwhile is less than what it keeps.
  std::vector<GroupCache::Group> known_;
  io::RangeReads reads_;
  // Of each group the first of its ranges among reads_; kNotRead where they are in memory.
  std::vector<std::size_t> first_reads_;
  std::atomic<std::int64_t> bytes_read_{0};
  std::atomic<std::int64_t> bytes_kept_{0};
};

}  // namespace cellfeed::format::parquet_table
