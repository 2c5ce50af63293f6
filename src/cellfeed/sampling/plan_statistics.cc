// Averages over some batches and fetch groups of a plan.
#include "cellfeed/sampling/plan_statistics.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/sampling/random.h"

namespace cellfeed::sampling {
namespace {

// Batches of the plan: all of them, or `count` chosen with a fixed seed.
std::vector<std::int64_t> chosen_batches(const Plan& plan, std::int64_t count) {
  std::vector<std::int64_t> batches;
  const std::int64_t n = plan.n_batches();
  const RandomStream stream(0, 0, Purpose::kStatistics);
  for (std::int64_t i = 0; i < std::min(n, count); ++i) {
    batches.push_back(n <= count
                          ? i
                          : static_cast<std::int64_t>(stream.bounded(
                                static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(n))));
  }
  return batches;
}

// Entropy of the labels >= 0; negative where there is none.
double entropy_bits(std::vector<std::int32_t>& labels) {
  std::erase_if(labels, [](std::int32_t label) { return label < 0; });
  if (labels.empty()) return -1;
  std::sort(labels.begin(), labels.end());
  double bits = 0;
  for (auto begin = labels.begin(); begin != labels.end();) {
    const auto end = std::upper_bound(begin, labels.end(), *begin);
    const double p = static_cast<double>(end - begin) / static_cast<double>(labels.size());
    bits -= p * std::log2(p);
    begin = end;
  }
  return bits;
}

class Mean {
 public:
  void add(double value) {
    sum_ += value;
    ++count_;
  }
  double value() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }
  std::int64_t count() const { return count_; }

 private:
  double sum_ = 0;
  std::int64_t count_ = 0;
};

std::int64_t row_at(const Plan& plan, std::uint64_t draw) {
  const RandomStream stream(1, 0, Purpose::kStatistics);
  const auto position = static_cast<std::int64_t>(
      stream.bounded(draw, static_cast<std::uint64_t>(plan.order_length())));
  std::int64_t row = 0;
  plan.strategy().samples(plan.key(), position, 1, {&row, 1});
  return row < 0 ? ~row : row;
}

// Rows of all batches that share a fetch group with `batch`, sorted.
std::vector<std::int64_t> fetched_rows(const Plan& plan, std::int64_t batch) {
  const std::int64_t group = plan.fetch_group(batch);
  std::int64_t first = batch;
  while (first > 0 && plan.fetch_group(first - 1) == group) --first;
  std::vector<std::int64_t> rows;
  BatchPlan out;
  for (std::int64_t b = first; b < plan.n_batches() && plan.fetch_group(b) == group; ++b) {
    plan.batch(b, out);
    rows.insert(rows.end(), out.rows.begin(), out.rows.end());
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

}  // namespace

LabelEntropy expected_label_entropy(const Plan& plan,
                                    const std::function<std::int32_t(std::int64_t)>& label_of,
                                    std::int64_t max_batches) {
  Mean batch_bits;
  Mean random_bits;
  BatchPlan batch;
  std::vector<std::int32_t> labels;
  std::uint64_t draw = 0;
  for (const std::int64_t b : chosen_batches(plan, max_batches)) {
    plan.batch(b, batch);
    labels.clear();
    for (const std::int64_t row : batch.rows) labels.push_back(label_of(row));
    const double bits = entropy_bits(labels);
    labels.clear();
    for (std::size_t i = 0; i < batch.rows.size(); ++i)
      labels.push_back(label_of(row_at(plan, draw++)));
    const double at_random = entropy_bits(labels);
    if (bits >= 0) batch_bits.add(bits);
    if (at_random >= 0) random_bits.add(at_random);
  }
  return {batch_bits.value(), random_bits.value(), batch_bits.count()};
}

FetchShape expected_fetch_shape(const Plan& plan, std::int64_t rows_per_chunk,
                                std::int64_t max_fetches) {
  if (rows_per_chunk <= 0)
    throw_invalid("rows_per_chunk is {}; it must be at least 1", rows_per_chunk);
  Mean rows;
  Mean distinct;
  Mean runs;
  Mean chunk_rows;
  for (const std::int64_t b : chosen_batches(plan, max_fetches)) {
    std::vector<std::int64_t> fetched = fetched_rows(plan, b);
    rows.add(static_cast<double>(fetched.size()));
    fetched.erase(std::unique(fetched.begin(), fetched.end()), fetched.end());
    std::int64_t n_runs = 0;
    std::int64_t n_chunks = 0;
    for (std::size_t i = 0; i < fetched.size(); ++i) {
      n_runs += i == 0 || fetched[i] != fetched[i - 1] + 1 ? 1 : 0;
      n_chunks += i == 0 || fetched[i] / rows_per_chunk != fetched[i - 1] / rows_per_chunk ? 1 : 0;
    }
    distinct.add(static_cast<double>(fetched.size()));
    runs.add(static_cast<double>(n_runs));
    chunk_rows.add(static_cast<double>(n_chunks * rows_per_chunk));
  }
  return {rows.value(), distinct.value(), runs.value(), chunk_rows.value(), rows.count()};
}

}  // namespace cellfeed::sampling
