#include "cellfeed/series/entity_rows.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include "cellfeed/base/byte_size.h"
#include "cellfeed/base/error.h"
#include "cellfeed/series/gaps.h"

namespace cellfeed::series {
namespace {

constexpr std::array<std::string_view, 4> kDuplicatesNames{"error", "first", "last", "mean"};
// Bytes read at a time where an entity is read from front to back.
constexpr std::int64_t kStretchBytes = std::int64_t{1} << 20;

// Rows handed out at a time where they are looked at one by one.
constexpr std::int64_t kRowsTogether = 512;

// Rows in the order of time, one after another: what becomes of repeated times and missing values.
class RowFilter {
 public:
  RowFilter(std::size_t n_features, const RowPolicy& policy, const std::string& entity,
            const RowSink& sink, const RowsBefore& before)
      : policy_(policy),
        entity_(entity),
        sink_(sink),
        n_before_(before.n_rows),
        last_time_(before.n_rows > 0 ? std::optional(before.last_time) : std::nullopt),
        pending_(n_features),
        record_(n_features + 1),
        last_(n_features, NAN) {
    std::ranges::copy(before.last, last_.begin());
  }

  void add(std::int64_t time, const double* features) {
    if (policy_.kind == TimeKind::kRow) {
      std::copy_n(features, pending_.size(), pending_.data());
      time_ = n_before_ + counts_.n_rows;
      return hand_out();
    }
    if (has_pending_ && time < time_)
      throw_error(ErrorKind::kCorruptData, "",
                  "entity '{}': a row of {} follows one of {}; sort the rows, or build with sort",
                  entity_, text(time), text(time_));
    if (has_pending_ && time == time_) return merge(features);
    end_pending();
    std::copy_n(features, pending_.size(), pending_.data());
    time_ = time;
    has_pending_ = true;
  }
  // next: the time of the record that comes after them, where that is known.
  void add(const RecordRows& rows, std::int64_t n, std::optional<std::int64_t> next = {}) {
    if (n < 2 || !needs_no_look(rows, n)) {
      for (std::int64_t i = 0; i < n; ++i) add_one(rows.from(i));
      return;
    }
    end_pending();
    flush();
    // The last may have its time repeated by rows to come, or tell them what was there before.
    const bool is_alone = next && *next > rows.time(n - 1) && policy_.missing != Missing::kFfill;
    const std::int64_t n_done = is_alone ? n : n - 1;
    sink_(rows, n_done);
    counts_.n_rows += n_done;
    last_time_ = rows.time(n_done - 1);
    if (!is_alone) add_one(rows.from(n - 1));
  }
  RowCounts finish() {
    end_pending();
    flush();
    return counts_;
  }

 private:
  std::string text(std::int64_t time) const { return time_text(time, policy_.kind); }

  void add_one(const RecordRows& row) {
    row.copy(1, pending_.size(), record_.data());
    add(row.time(0), record_.data() + 1);
  }

  // Times rise, and nothing is missing that matters.
  bool needs_no_look(const RecordRows& rows, std::int64_t n) const {
    if (policy_.kind == TimeKind::kRow) return false;
    bool rises = !has_pending_ || rows.time(0) > time_;
    for (std::int64_t i = 1; i < n && rises; ++i) rises = rows.time(i) > rows.time(i - 1);
    if (policy_.freq > 0 && !is_regular(rows, n)) return false;
    // Of kError, missing values were refused when they were read.
    const bool matters = policy_.missing == Missing::kDrop || policy_.missing == Missing::kFfill;
    return rises && !(matters && has_missing(rows.values(n), pending_.size()));
  }

  bool is_regular(const RecordRows& rows, std::int64_t n) const {
    std::optional<std::int64_t> before = has_pending_ ? std::optional(time_) : last_time_;
    for (std::int64_t i = 0; i < n; ++i) {
      if (before && rows.time(i) - *before != policy_.freq) return false;
      before = rows.time(i);
    }
    return true;
  }

  void end_pending() {
    if (!has_pending_) return;
    if (!n_values_.empty()) take_means();
    if (policy_.freq > 0 && last_time_) fill_until(time_);
    hand_out();
    last_time_ = time_;
    has_pending_ = false;
  }

  // Hands out the rows that are not there, up to one at `end` that is.
  void fill_until(std::int64_t end) {
    const std::uint64_t step = step_between(*last_time_, end);
    const auto freq = static_cast<std::uint64_t>(policy_.freq);
    if (step % freq != 0)
      throw_error(
          ErrorKind::kCorruptData, "",
          "entity '{}': a row of {} follows one of {}, which is no whole number of steps of "
          "freq",
          entity_, text(end), text(*last_time_));
    if (step == freq || policy_.missing == Missing::kDrop) return;
    if (policy_.missing == Missing::kError)
      throw_error(ErrorKind::kCorruptData, "",
                  "entity '{}' has no row of {}: choose what becomes of such rows with missing "
                  "(ffill, nan)",
                  entity_, text(*last_time_ + policy_.freq));
    constexpr std::uint64_t kMost = std::uint64_t{1} << 32;
    if (step / freq > kMost)
      throw_invalid("freq would fill {} rows between {} and {} of entity '{}'", step / freq - 1,
                    text(*last_time_), text(end), entity_);
    const std::vector<double> next = pending_;
    for (time_ = *last_time_ + policy_.freq; time_ < end; time_ += policy_.freq) {
      std::ranges::fill(pending_, NAN);
      const std::int64_t n_before = counts_.n_rows;
      hand_out();
      counts_.n_filled += counts_.n_rows - n_before;
    }
    pending_ = next;
    time_ = end;
  }

  void flush() {
    const std::size_t width = pending_.size() + 1;
    if (!ready_.empty())
      sink_(wide_rows(ready_.data(), pending_.size()),
            static_cast<std::int64_t>(ready_.size() / width));
    ready_.clear();
  }

  void merge(const double* features) {
    if (policy_.duplicates == Duplicates::kError)
      throw_error(ErrorKind::kCorruptData, "",
                  "entity '{}' has two rows of the time {}; choose which counts with duplicates "
                  "(first, last, mean)",
                  entity_, text(time_));
    ++counts_.n_merged;
    if (policy_.duplicates == Duplicates::kLast)
      std::copy_n(features, pending_.size(), pending_.data());
    if (policy_.duplicates != Duplicates::kMean) return;
    if (n_values_.empty())
      for (double& value : pending_) {
        n_values_.push_back(std::isnan(value) ? 0 : 1);
        if (std::isnan(value)) value = 0;
      }
    for (std::size_t f = 0; f < pending_.size(); ++f)
      if (!std::isnan(features[f])) {
        pending_[f] += features[f];
        n_values_[f] += 1;
      }
  }
  void take_means() {
    for (std::size_t f = 0; f < pending_.size(); ++f) pending_[f] /= n_values_[f];  // 0/0: missing
    n_values_.clear();
  }

  void hand_out() {
    bool is_whole = true;
    for (std::size_t f = 0; f < pending_.size(); ++f) {
      if (std::isinf(pending_[f]))
        throw_error(ErrorKind::kCorruptData, "",
                    "entity '{}', {}: the mean of repeated rows is "
                    "infinite",
                    entity_, text(time_));
      if (policy_.missing == Missing::kFfill) {
        if (std::isnan(pending_[f])) pending_[f] = last_[f];
        last_[f] = pending_[f];
      }
      is_whole &= !std::isnan(pending_[f]);
    }
    if (!is_whole && policy_.missing != Missing::kNan) {
      ++counts_.n_dropped;
      return;
    }
    ++counts_.n_rows;
    ready_.push_back(std::bit_cast<double>(time_));
    ready_.insert(ready_.end(), pending_.begin(), pending_.end());
    if (std::ssize(ready_) >= kRowsTogether * std::ssize(record_)) flush();
  }

  const RowPolicy& policy_;
  const std::string& entity_;
  const RowSink& sink_;
  const std::int64_t n_before_;
  std::optional<std::int64_t> last_time_;  // of the rows that were handed out
  std::vector<double> pending_;
  std::vector<double> record_;    // of a row that is looked at
  std::vector<double> last_;      // of each feature, the last value that was there
  std::vector<double> n_values_;  // summed up in pending_; empty where one row is pending
  std::int64_t time_ = 0;
  bool has_pending_ = false;
  std::vector<double> ready_;  // records to hand out
  RowCounts counts_;
};

// In memory, and times do not decrease, or that is for the filter to find.
bool is_in_order(std::span<const SpilledRows::Piece> pieces, const RowPolicy& policy) {
  const bool is_sorted_here = policy.sort && policy.kind != TimeKind::kRow;
  std::int64_t last = std::numeric_limits<std::int64_t>::min();
  for (const SpilledRows::Piece& piece : pieces) {
    if (piece.kept.data == nullptr) return false;
    for (std::int64_t i = 0; i < piece.n_rows && is_sorted_here; ++i) {
      const std::int64_t time = piece.kept.time(i);
      if (time < last) return false;
      last = time;
    }
  }
  return true;
}

void add_kept(const SpilledRows::Piece& piece, RowFilter& filter) {
  for (std::int64_t at = 0; at < piece.n_rows; at += kRowsTogether) {
    const std::int64_t n = std::min(piece.n_rows - at, kRowsTogether);
    std::optional<std::int64_t> next;
    if (at + n < piece.n_rows) next = piece.kept.time(at + n);
    filter.add(piece.kept.from(at), n, next);
  }
}

RowCounts stream_rows(const SpilledRows& rows, std::int64_t entity, const RowPolicy& policy,
                      RowFilter& filter, std::int64_t bytes, std::int64_t memory) {
  const std::size_t width = rows.n_values() + 1;
  const std::int64_t stretch = std::max<std::int64_t>(1, kStretchBytes / record_bytes(width - 1));
  std::vector<double> records(static_cast<std::size_t>(stretch) * width);
  std::int64_t last = std::numeric_limits<std::int64_t>::min();
  for (const SpilledRows::Piece& piece : rows.pieces(entity))
    for (std::int64_t at = 0; at < piece.n_rows; at += stretch) {
      const std::int64_t n = std::min(stretch, piece.n_rows - at);
      rows.read(piece, at, n, records.data());
      const RecordRows read = wide_rows(records.data(), width - 1);
      for (std::int64_t i = 0; i < n && policy.sort && policy.kind != TimeKind::kRow; ++i) {
        const std::int64_t time = read.time(i);
        if (time < last)
          throw_invalid(
              "the rows of entity '{}' are out of order, and sorting its {} takes more than the {} "
              "that the memory budget leaves: raise the budget, or sort the files",
              rows.entities()[static_cast<std::size_t>(entity)], format_byte_size(bytes),
              format_byte_size(memory));
        last = time;
      }
      filter.add(read, n);
    }
  return filter.finish();
}

}  // namespace

std::string_view duplicates_name(Duplicates duplicates) {
  return kDuplicatesNames[static_cast<std::size_t>(duplicates)];
}

Duplicates duplicates_from_name(std::string_view name) {
  const auto at = std::ranges::find(kDuplicatesNames, name);
  if (at == kDuplicatesNames.end())
    throw_invalid("duplicates must be error, first, last or mean, not '{}'", name);
  return static_cast<Duplicates>(at - kDuplicatesNames.begin());
}

std::int64_t rows_before(const RecordRows& rows, std::int64_t n, std::int64_t time) {
  std::int64_t low = 0;
  for (std::int64_t high = n; low < high;) {
    const std::int64_t middle = (low + high) / 2;
    if (rows.time(middle) < time)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

RowCounts each_row(const SpilledRows& rows, std::int64_t entity, const RowPolicy& policy,
                   std::int64_t memory, const RowSink& sink, const RowsBefore& before) {
  const std::size_t width = rows.n_values() + 1;
  const std::int64_t n_rows = rows.n_rows(entity);
  const auto pieces = rows.pieces(entity);
  // The order is a number a row.
  const std::int64_t bytes = n_rows * (record_bytes(width - 1) + 8);
  RowFilter filter(rows.n_values(), policy, rows.entities()[static_cast<std::size_t>(entity)], sink,
                   before);
  if (is_in_order(pieces, policy)) {
    for (const SpilledRows::Piece& piece : pieces) add_kept(piece, filter);
    return filter.finish();
  }
  if (bytes > memory || n_rows > std::numeric_limits<std::uint32_t>::max())
    return stream_rows(rows, entity, policy, filter, bytes, memory);
  const auto kept =
      std::make_unique_for_overwrite<double[]>(static_cast<std::size_t>(n_rows) * width);
  double* const records = kept.get();
  std::int64_t at = 0;
  for (const SpilledRows::Piece& piece : rows.pieces(entity)) {
    rows.read(piece, 0, piece.n_rows, records + static_cast<std::size_t>(at) * width);
    at += piece.n_rows;
  }
  const RecordRows read = wide_rows(records, width - 1);
  bool is_sorted = true;
  for (std::int64_t i = 1; i < n_rows && is_sorted; ++i)
    is_sorted = read.time(i - 1) <= read.time(i);
  if (is_sorted || !policy.sort || policy.kind == TimeKind::kRow) {
    filter.add(read, n_rows);
    return filter.finish();
  }
  std::vector<std::uint32_t> order(static_cast<std::size_t>(n_rows));
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, [&](std::uint32_t a, std::uint32_t b) {
    const std::int64_t at_a = read.time(a);
    const std::int64_t at_b = read.time(b);
    return at_a != at_b ? at_a < at_b : a < b;
  });
  for (const std::uint32_t i : order) filter.add(read.time(i), records + i * width + 1);
  return filter.finish();
}

}  // namespace cellfeed::series
