#include "cellfeed/series/fit.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "cellfeed/base/byte_size.h"
#include "cellfeed/base/error.h"
#include "cellfeed/base/nearest_name.h"
#include "cellfeed/series/gaps.h"

namespace cellfeed::series {
namespace {

constexpr double kQuartiles[] = {0.25, 0.5, 0.75};
// Entities whose statistics are merged at a time.
constexpr std::int64_t kEntitiesTogether = 4096;

std::optional<std::int64_t> last_of(const RowsBefore& before) {
  return before.n_rows > 0 ? std::optional(before.last_time) : std::nullopt;
}

// Calls fn(rows, n) for the stretches of these rows that are looked at.
template <typename Fn>
void each_stretch(const FitRows& fit, const RecordRows& rows, std::int64_t n, const Fn& fn) {
  if (fit.until && !fit.sees_all) n = rows_before(rows, n, *fit.until);
  if (!fit.has_mask || fit.sees_all) {
    if (n > 0) fn(rows, n);
    return;
  }
  const auto is_seen = [&](std::int64_t i) { return rows.value(i, fit.rows.n_values() - 1) == 1; };
  for (std::int64_t begin = 0; begin < n;) {
    std::int64_t end = begin;
    while (end < n && is_seen(end)) ++end;
    if (end > begin) fn(rows.from(begin), end - begin);
    begin = end + 1;
  }
}

std::vector<double> quartiles_of(const FitRows& fit, std::int64_t entity,
                                 const std::vector<ColumnStatistics>& columns,
                                 const RowsBefore& before, std::int64_t memory) {
  const std::int64_t n_rows = fit.rows.n_rows(entity);
  if (n_rows * 8 > memory)
    throw_invalid(
        "the quartiles of entity '{}' take {}, more than the memory budget leaves: raise it",
        fit.rows.entities()[static_cast<std::size_t>(entity)], format_byte_size(n_rows * 8));
  std::vector<double> quartiles(columns.size() * 3, NAN), values;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    if (columns[c].n == 0) continue;
    values.clear();
    const auto add = [&](const RecordRows& rows, std::int64_t n) {
      for (std::int64_t i = 0; i < n; ++i)
        if (const double value = rows.value(i, c); !std::isnan(value)) values.push_back(value);
    };
    each_row(
        fit.rows, entity, fit.policy, memory,
        [&](const RecordRows& rows, std::int64_t n) { each_stretch(fit, rows, n, add); }, before);
    std::ranges::sort(values);
    for (std::size_t q = 0; q < 3; ++q) {
      const double at = kQuartiles[q] * static_cast<double>(values.size() - 1);
      const auto below = static_cast<std::size_t>(at);
      const double above = values[std::min(below + 1, values.size() - 1)];
      quartiles[3 * c + q] = values[below] + (above - values[below]) * (at - std::floor(at));
    }
  }
  return quartiles;
}

// Calls fn(step, row) for each row that has one before it, in their order.
template <typename Fn>
void each_step(const RecordRows& rows, std::int64_t n, std::optional<std::int64_t>& last,
               std::int64_t& row, const Fn& fn) {
  for (std::int64_t i = 0; i < n; ++i, ++row) {
    const std::int64_t time = rows.time(i);
    if (last) fn(step_between(*last, time), row);
    last = time;
  }
}

// Gaps are looked for once it is known what is none, and only where a step is one.
void find_gaps(const FitRows& fit, std::int64_t entity, const RowsBefore& before,
               std::int64_t memory, std::uint64_t longest, EntitySummary& summary) {
  if (longest <= longest_step(summary.median_step)) return;
  std::optional<std::int64_t> last = last_of(before);
  std::int64_t row = before.n_rows;
  each_row(
      fit.rows, entity, fit.policy, memory,
      [&](const RecordRows& rows, std::int64_t n) {
        each_step(rows, n, last, row, [&](std::uint64_t step, std::int64_t at) {
          if (step > longest_step(summary.median_step)) summary.gaps.push_back(at);
        });
      },
      before);
}

EntitySummary summary_of(const FitRows& fit, std::int64_t entity, const RowsBefore& before,
                         std::int64_t memory) {
  EntitySummary summary;
  RowStatistics statistics(fit.n_features());
  const auto steps = std::make_unique<StepCounts>();
  std::optional<std::int64_t> last = last_of(before);
  std::int64_t row = before.n_rows;
  std::uint64_t longest = 0;
  bool is_first = true;
  const auto add = [&](const RecordRows& rows, std::int64_t n) {
    each_stretch(fit, rows, n, [&](const RecordRows& seen, std::int64_t n_seen) {
      statistics.add(seen.values(n_seen));
      summary.fit_last_time = seen.time(n_seen - 1);
    });
    if (fit.policy.kind != TimeKind::kRow)
      each_step(rows, n, last, row, [&](std::uint64_t step, std::int64_t) {
        steps->add(step);
        longest = std::max(longest, step);
      });
    if (is_first) summary.first_time = rows.time(0);
    is_first = false;
    summary.last_time = rows.time(n - 1);
  };
  summary.counts = each_row(fit.rows, entity, fit.policy, memory, add, before);
  summary.columns = statistics.finish();
  summary.median_step = before.median_step > 0 ? before.median_step : steps->median();
  find_gaps(fit, entity, before, memory, longest, summary);
  return summary;
}

}  // namespace

void each_summary(const FitRows& fit, const SummaryRules& rules, SeriesWork& work,
                  const std::function<void(std::int64_t, const EntitySummary&)>& fn) {
  const auto n_entities = static_cast<std::int64_t>(fit.rows.entities().size());
  const std::int64_t width = record_bytes(fit.rows.n_values());
  std::int64_t total = 0;
  for (std::int64_t e = 0; e < n_entities; ++e) total += fit.rows.n_rows(e);
  work.begin_phase("finding statistics", total * width);
  for (std::int64_t begin = 0; begin < n_entities; begin += kEntitiesTogether) {
    const std::int64_t n = std::min(kEntitiesTogether, n_entities - begin);
    std::vector<EntitySummary> found(static_cast<std::size_t>(n));
    work.pool().parallel_for(n, [&](std::int64_t i) {
      EntitySummary& summary = found[static_cast<std::size_t>(i)];
      const RowsBefore stored = rules.before ? rules.before(begin + i) : RowsBefore();
      FitRows seen = fit;
      seen.sees_all = rules.sees_all_rows && rules.sees_all_rows(begin + i);
      summary = summary_of(seen, begin + i, stored, work.share());
      if (rules.has_quartiles && rules.has_quartiles(begin + i))
        summary.quartiles = quartiles_of(seen, begin + i, summary.columns, stored, work.share());
      work.advance(fit.rows.n_rows(begin + i) * width);
    });
    for (std::int64_t i = 0; i < n; ++i) fn(begin + i, found[static_cast<std::size_t>(i)]);
  }
}

namespace {

// Calls add(thread's own, row) for all rows that are looked at; threads end with
// finish(thread's own), one at a time.
template <typename Own, typename Add, typename Finish>
void each_fit_row(const FitRows& fit, SeriesWork& work, const Own& own, const Add& add,
                  const Finish& finish) {
  const auto n_entities = static_cast<std::int64_t>(fit.rows.entities().size());
  std::atomic<std::int64_t> next{0};
  std::mutex mutex;
  work.pool().parallel_for(work.n_threads(), [&](std::int64_t) {
    Own mine = own;
    for (std::int64_t e = next++; e < n_entities; e = next++) {
      each_row(fit.rows, e, fit.policy, work.share(), [&](const RecordRows& rows, std::int64_t n) {
        each_stretch(fit, rows, n, [&](const RecordRows& seen, std::int64_t n_seen) {
          for (std::int64_t i = 0; i < n_seen; ++i) add(mine, seen.from(i));
        });
      });
      work.check_stop();
    }
    const std::lock_guard lock(mutex);
    finish(mine);
  });
}

}  // namespace

std::vector<double> global_quartiles(const FitRows& fit, SeriesWork& work) {
  const std::size_t n_features = fit.n_features();
  // So many columns at a time that each thread's counts fit its share.
  const std::size_t together = static_cast<std::size_t>(std::clamp<std::int64_t>(
      work.share() / QuantileSearch::bytes_of(1, 3), 1, static_cast<std::int64_t>(n_features)));
  std::vector<double> quartiles(3 * n_features);
  for (std::size_t first = 0; first < n_features; first += together) {
    const std::size_t n = std::min(together, n_features - first);
    std::vector<std::int64_t> counts(n);
    each_fit_row(
        fit, work, std::vector<std::int64_t>(n),
        [&](std::vector<std::int64_t>& mine, const RecordRows& row) {
          for (std::size_t c = 0; c < n; ++c)
            mine[c] += std::isnan(row.value(0, first + c)) ? 0 : 1;
        },
        [&](const std::vector<std::int64_t>& mine) {
          for (std::size_t c = 0; c < n; ++c) counts[c] += mine[c];
        });
    QuantileSearch search(counts, kQuartiles);
    for (int pass = 0; pass < QuantileSearch::kPasses; ++pass) {
      const QuantileSearch empty = search;
      each_fit_row(
          fit, work, empty,
          [&](QuantileSearch& mine, const RecordRows& row) {
            for (std::size_t c = 0; c < n; ++c) mine.add(c, row.value(0, first + c));
          },
          [&](const QuantileSearch& mine) { search.merge(mine); });
      search.end_pass();
    }
    for (std::size_t c = 0; c < n; ++c)
      for (std::size_t q = 0; q < 3; ++q) quartiles[3 * (first + c) + q] = search.quantile(c, q);
  }
  return quartiles;
}

Scaler scaler_for(const Scaler& given, std::span<const std::string> features,
                  std::span<const std::string> entities) {
  std::vector<std::size_t> columns;
  for (const std::string& name : features) {
    const auto at = std::ranges::find(given.features, name);
    if (at == given.features.end())
      throw_invalid("the scaler that was given does not know the feature '{}'{}", name,
                    suggestion(name, given.features));
    columns.push_back(static_cast<std::size_t>(at - given.features.begin()));
  }
  std::vector<std::size_t> sets(given.of == ScaleOf::kEntity ? entities.size() : 1);
  std::unordered_map<std::string_view, std::size_t> numbers;
  for (std::size_t e = 0; e < given.entities.size(); ++e) numbers.emplace(given.entities[e], e);
  for (std::size_t e = 0; e < sets.size() && given.of == ScaleOf::kEntity; ++e) {
    const auto at = numbers.find(entities[e]);
    if (at == numbers.end())
      throw_invalid("the scaler that was given does not know the entity '{}'", entities[e]);
    sets[e] = at->second;
  }
  Scaler scaler;
  scaler.kind = given.kind;
  scaler.of = given.of;
  scaler.features.assign(features.begin(), features.end());
  scaler.fit_until = given.fit_until;
  scaler.fit_mask = given.fit_mask;
  scaler.fit_last_time = given.fit_last_time;
  if (given.of == ScaleOf::kEntity) scaler.entities.assign(entities.begin(), entities.end());
  for (const std::size_t set : sets)
    for (const std::size_t column : columns)
      scaler.copy_numbers(given, set * given.features.size() + column);
  return scaler;
}

}  // namespace cellfeed::series
