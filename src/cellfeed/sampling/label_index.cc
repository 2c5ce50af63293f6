// Groups samples by class: runs where they are long, else a counting sort.
#include "cellfeed/sampling/label_index.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/sampling/attached_values.h"

namespace cellfeed::sampling {
namespace {

// Codes far above the number of samples are not codes but values: a table by code would not fit.
constexpr std::int64_t kAlwaysAllowedCodes = std::int64_t{1} << 24;

void check_code(std::int32_t code, std::int64_t where, std::int64_t n_samples) {
  if (code < -1) {
    throw_invalid("labels hold codes 0 to K-1, and -1 for a missing label; entry {} is {}", where,
                  code);
  }
  if (code >= kAlwaysAllowedCodes && code / 4 > n_samples) {
    throw_invalid("labels must be codes 0 to K-1; entry {} is {}, with {} samples only", where,
                  code, n_samples);
  }
}

template <typename Run>
void for_each_run(std::span<const std::int32_t> codes, Run run) {
  for (std::size_t begin = 0; begin < codes.size();) {
    std::size_t end = begin + 1;
    while (end < codes.size() && codes[end] == codes[begin]) ++end;
    run(LabelRun{codes[begin], static_cast<std::int64_t>(end - begin)});
    begin = end;
  }
}

void add_count(std::vector<std::int64_t>& counts, LabelRun run) {
  if (run.code < 0) return;
  const auto code = static_cast<std::size_t>(run.code);
  if (code >= counts.size()) counts.resize(code + 1, 0);
  counts[code] += run.count;
}

std::vector<LabelRun> checked_runs(std::int64_t n_rows, std::span<const LabelRun> runs) {
  check_n_rows(n_rows);
  std::vector<LabelRun> out;
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    check_code(runs[i].code, static_cast<std::int64_t>(i), n_rows);
    if (runs[i].count < 0 || runs[i].count > n_rows - rows) {
      throw_invalid("run {} of the labels has {} rows after {} of {}", i, runs[i].count, rows,
                    n_rows);
    }
    rows += runs[i].count;
    if (runs[i].count == 0) continue;
    if (!out.empty() && out.back().code == runs[i].code) {
      out.back().count += runs[i].count;
    } else {
      out.push_back(runs[i]);
    }
  }
  if (rows != n_rows) throw_invalid("runs of the labels cover {} rows of {}", rows, n_rows);
  return out;
}

}  // namespace

LabelIndex::LabelIndex(std::int64_t n_rows, std::span<const std::int32_t> codes, Indices indices)
    : set_(n_rows, indices) {
  std::vector<std::int32_t> storage;
  codes = attach_values(n_rows, indices, codes, "labels", storage);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    check_code(codes[i], static_cast<std::int64_t>(i), set_.size());
  }
  Fingerprint print("labels");
  set_.add_to(print);
  std::vector<std::int64_t> counts;
  std::int64_t n_runs = 0;
  for_each_run(codes, [&](LabelRun run) {
    add_count(counts, run);
    print.add_signed(run.code).add_signed(run.count);
    ++n_runs;
  });
  fingerprint_ = print.value();
  set_classes(counts);
  if (n_runs <= set_.size() / 4) {
    std::vector<LabelRun> runs;
    runs.reserve(static_cast<std::size_t>(n_runs));
    for_each_run(codes, [&](LabelRun run) { runs.push_back(run); });
    fill_runs(runs);
  } else if (set_.size() <= std::numeric_limits<std::uint32_t>::max()) {
    fill_members(codes, members32_);
  } else {
    fill_members(codes, members64_);
  }
}

LabelIndex::LabelIndex(std::int64_t n_rows, std::span<const LabelRun> given) : set_(n_rows, {}) {
  const std::vector<LabelRun> runs = checked_runs(n_rows, given);
  Fingerprint print("labels");
  set_.add_to(print);
  std::vector<std::int64_t> counts;
  for (const LabelRun run : runs) {
    add_count(counts, run);
    print.add_signed(run.code).add_signed(run.count);
  }
  fingerprint_ = print.value();
  set_classes(counts);
  fill_runs(runs);
}

void LabelIndex::set_classes(const std::vector<std::int64_t>& counts) {
  class_of_code_.assign(counts.size(), -1);
  class_begin_ = {0};
  for (std::size_t code = 0; code < counts.size(); ++code) {
    if (counts[code] == 0) continue;
    class_of_code_[code] = n_classes();
    codes_.push_back(static_cast<std::int32_t>(code));
    class_begin_.push_back(class_begin_.back() + counts[code]);
  }
  if (codes_.empty()) throw_invalid("no sample has a label: all {} are missing (-1)", set_.size());
}

void LabelIndex::fill_runs(std::span<const LabelRun> runs) {
  class_run_.assign(codes_.size() + 1, 0);
  for (const LabelRun run : runs) {
    if (run.code >= 0)
      ++class_run_[static_cast<std::size_t>(class_of_code_[static_cast<std::size_t>(run.code)]) +
                   1];
  }
  for (std::size_t c = 0; c < codes_.size(); ++c) class_run_[c + 1] += class_run_[c];
  run_begin_.resize(class_run_.back());
  run_sample_.resize(class_run_.back());
  std::vector<std::size_t> next_run(class_run_.begin(), class_run_.end() - 1);
  std::vector<std::int64_t> next_begin(class_begin_.begin(), class_begin_.end() - 1);
  std::int64_t sample = 0;
  for (const LabelRun run : runs) {
    if (run.code >= 0) {
      const auto c = static_cast<std::size_t>(class_of_code_[static_cast<std::size_t>(run.code)]);
      run_begin_[next_run[c]] = next_begin[c];
      run_sample_[next_run[c]++] = sample;
      next_begin[c] += run.count;
    }
    sample += run.count;
  }
}

template <typename T>
void LabelIndex::fill_members(std::span<const std::int32_t> codes, std::vector<T>& members) {
  members.resize(static_cast<std::size_t>(n_labelled()));
  std::vector<std::int64_t> next(class_begin_.begin(), class_begin_.end() - 1);
  for (std::size_t v = 0; v < codes.size(); ++v) {
    if (codes[v] < 0) continue;
    const auto c = static_cast<std::size_t>(class_of_code_[static_cast<std::size_t>(codes[v])]);
    members[static_cast<std::size_t>(next[c]++)] = static_cast<T>(v);
  }
}

std::int64_t LabelIndex::row_in_runs(std::size_t first_run, std::size_t end_run,
                                     std::int64_t k) const {
  const auto begin = run_begin_.begin();
  const auto after = std::upper_bound(begin + static_cast<std::ptrdiff_t>(first_run),
                                      begin + static_cast<std::ptrdiff_t>(end_run), k);
  const auto run = static_cast<std::size_t>(after - begin - 1);
  return set_[run_sample_[run] + (k - run_begin_[run])];
}

std::int64_t LabelIndex::row(std::int64_t c, std::int64_t k) const {
  const std::int64_t at = begin_of(c) + k;
  if (!is_runs()) return row(at);
  const auto cls = static_cast<std::size_t>(c);
  return row_in_runs(class_run_[cls], class_run_[cls + 1], at);
}

std::int64_t LabelIndex::row(std::int64_t k) const {
  const auto at = static_cast<std::size_t>(k);
  if (!members32_.empty()) return set_[members32_[at]];
  if (!members64_.empty()) return set_[members64_[at]];
  return row_in_runs(0, run_begin_.size(), k);
}

std::int64_t LabelIndex::class_of(std::int64_t k) const {
  return std::upper_bound(class_begin_.begin(), class_begin_.end(), k) - class_begin_.begin() - 1;
}

std::vector<double> LabelIndex::per_sample(std::span<const double> of_class) const {
  std::vector<double> out(static_cast<std::size_t>(set_.size()), 0.0);
  for (std::size_t c = 0; c < codes_.size(); ++c) {
    if (is_runs()) {
      for (std::size_t run = class_run_[c]; run < class_run_[c + 1]; ++run) {
        const std::int64_t end =
            run + 1 < class_run_[c + 1] ? run_begin_[run + 1] : class_begin_[c + 1];
        const auto first = out.begin() + run_sample_[run];
        std::fill(first, first + (end - run_begin_[run]), of_class[c]);
      }
      continue;
    }
    for (auto k = static_cast<std::size_t>(class_begin_[c]);
         k < static_cast<std::size_t>(class_begin_[c + 1]); ++k) {
      const auto sample = members32_.empty() ? static_cast<std::size_t>(members64_[k])
                                             : static_cast<std::size_t>(members32_[k]);
      out[sample] = of_class[c];
    }
  }
  return out;
}

std::int64_t LabelIndex::bytes() const {
  const std::size_t words = class_begin_.size() + class_of_code_.size() + run_begin_.size() +
                            run_sample_.size() + class_run_.size() + members64_.size();
  return static_cast<std::int64_t>(words * 8 + (codes_.size() + members32_.size()) * 4);
}

}  // namespace cellfeed::sampling
