#include "cellfeed/series/entity_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "cellfeed/base/byte_size.h"
#include "cellfeed/base/error.h"

namespace cellfeed::series {
namespace {

// Bytes read at a time where an entity is read from front to back.
constexpr std::int64_t kStretchBytes = std::int64_t{1} << 20;

// Rows in the order of time, one after another: what becomes of repeated times and missing values.
class RowFilter {
 public:
  RowFilter(std::size_t n_features, const RowPolicy& policy, const std::string& entity,
            const RowSink& sink)
      : policy_(policy),
        entity_(entity),
        sink_(sink),
        pending_(n_features),
        last_(n_features, NAN) {}

  void add(std::int64_t time, const double* features) {
    if (policy_.kind == TimeKind::kRow) {
      std::copy_n(features, pending_.size(), pending_.data());
      time_ = counts_.n_rows;
      return hand_out();
    }
    if (has_pending_ && time < time_)
      throw_error(ErrorKind::kCorruptData, "",
                  "entity '{}': a row of {} follows one of {}; sort the rows, or build with sort",
                  entity_, text(time), text(time_));
    if (has_pending_ && time == time_) return merge(features);
    finish();
    std::copy_n(features, pending_.size(), pending_.data());
    time_ = time;
    has_pending_ = true;
  }
  RowCounts finish() {
    if (has_pending_) {
      if (!n_values_.empty()) take_means();
      hand_out();
    }
    has_pending_ = false;
    return counts_;
  }

 private:
  std::string text(std::int64_t time) const { return time_text(time, policy_.kind); }

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
    sink_(time_, pending_.data());
  }

  const RowPolicy& policy_;
  const std::string& entity_;
  const RowSink& sink_;
  std::vector<double> pending_;
  std::vector<double> last_;      // of each feature, the last value that was there
  std::vector<double> n_values_;  // summed up in pending_; empty where one row is pending
  std::int64_t time_ = 0;
  bool has_pending_ = false;
  RowCounts counts_;
};

std::int64_t time_of(const double* record) { return std::bit_cast<std::int64_t>(*record); }

RowCounts stream_rows(const SpilledRows& rows, std::int64_t entity, const RowPolicy& policy,
                      RowFilter& filter, std::int64_t bytes, std::int64_t memory) {
  const std::size_t width = rows.n_features() + 1;
  const std::int64_t stretch = std::max<std::int64_t>(1, kStretchBytes / record_bytes(width - 1));
  std::vector<double> records(static_cast<std::size_t>(stretch) * width);
  std::int64_t last = std::numeric_limits<std::int64_t>::min();
  for (const SpilledRows::Piece& piece : rows.pieces(entity))
    for (std::int64_t at = 0; at < piece.n_rows; at += stretch) {
      const std::int64_t n = std::min(stretch, piece.n_rows - at);
      rows.read(piece, at, n, records.data());
      for (std::int64_t i = 0; i < n; ++i) {
        const double* record = records.data() + static_cast<std::size_t>(i) * width;
        if (policy.sort && policy.kind != TimeKind::kRow && time_of(record) < last)
          throw_invalid(
              "the rows of entity '{}' are out of order, and sorting its {} takes more than the {} "
              "that the memory budget leaves: raise the budget, or sort the files",
              rows.entities()[static_cast<std::size_t>(entity)], format_byte_size(bytes),
              format_byte_size(memory));
        last = time_of(record);
        filter.add(last, record + 1);
      }
    }
  return filter.finish();
}

}  // namespace

RowCounts each_row(const SpilledRows& rows, std::int64_t entity, const RowPolicy& policy,
                   std::int64_t memory, const RowSink& sink) {
  const std::size_t width = rows.n_features() + 1;
  const std::int64_t n_rows = rows.n_rows(entity);
  // The order is a number a row.
  const std::int64_t bytes = n_rows * (record_bytes(width - 1) + 8);
  RowFilter filter(rows.n_features(), policy, rows.entities()[static_cast<std::size_t>(entity)],
                   sink);
  if (bytes > memory || n_rows > std::numeric_limits<std::uint32_t>::max())
    return stream_rows(rows, entity, policy, filter, bytes, memory);
  std::vector<double> records(static_cast<std::size_t>(n_rows) * width);
  std::int64_t at = 0;
  for (const SpilledRows::Piece& piece : rows.pieces(entity)) {
    rows.read(piece, 0, piece.n_rows, records.data() + static_cast<std::size_t>(at) * width);
    at += piece.n_rows;
  }
  const auto record = [&](std::size_t i) { return records.data() + i * width; };
  bool is_sorted = true;
  for (std::size_t i = 1; i < static_cast<std::size_t>(n_rows) && is_sorted; ++i)
    is_sorted = time_of(record(i - 1)) <= time_of(record(i));
  if (is_sorted || !policy.sort || policy.kind == TimeKind::kRow) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(n_rows); ++i)
      filter.add(time_of(record(i)), record(i) + 1);
    return filter.finish();
  }
  std::vector<std::uint32_t> order(static_cast<std::size_t>(n_rows));
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, [&](std::uint32_t a, std::uint32_t b) {
    const std::int64_t at_a = time_of(record(a));
    const std::int64_t at_b = time_of(record(b));
    return at_a != at_b ? at_a < at_b : a < b;
  });
  for (const std::uint32_t i : order) filter.add(time_of(record(i)), record(i) + 1);
  return filter.finish();
}

}  // namespace cellfeed::series
