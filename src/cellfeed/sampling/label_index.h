// LabelIndex: class -> its member samples, without a table where labels come in runs.
// Thread-safe: immutable.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cellfeed/sampling/sample_set.h"

namespace cellfeed::sampling {

// `count` consecutive rows of one code.
struct LabelRun {
  std::int32_t code;
  std::int64_t count;
};

// Memory: 16 bytes a run where runs are 4 samples long on average, else 4 bytes a sample (8 above
// 2^32 samples); and 24 bytes a class. Classes without members are left out. Samples of code -1
// (missing) are in no class.
// Shared from this for the reason given in sampling/strategy.h.
class LabelIndex : public std::enable_shared_from_this<LabelIndex> {
 public:
  // codes: one per row, or one per index. Throws kInvalidArgument for a wrong length, a code below
  // -1, codes that are not dense enough to be codes, or no labelled sample.
  LabelIndex(std::int64_t n_rows, std::span<const std::int32_t> codes, Indices indices = {});
  // All rows, as runs: nothing per sample is ever made.
  LabelIndex(std::int64_t n_rows, std::span<const LabelRun> runs);

  std::int64_t n_rows() const { return set_.n_rows(); }
  std::int64_t n_classes() const { return static_cast<std::int64_t>(codes_.size()); }
  std::int64_t n_labelled() const { return class_begin_.back(); }
  std::int32_t code(std::int64_t c) const { return codes_[static_cast<std::size_t>(c)]; }
  std::int64_t count(std::int64_t c) const { return begin_of(c + 1) - begin_of(c); }
  // Row of member k of class c, members in storage order. REQUIRES: c in [0, n_classes()), k in [0,
  // count(c)).
  std::int64_t row(std::int64_t c, std::int64_t k) const;
  // Row of labelled sample k, counted class by class. REQUIRES: k in [0, n_labelled()).
  std::int64_t row(std::int64_t k) const;
  // Member k of class c, or, for kAnyClass, labelled sample k.
  struct Member {
    std::int64_t c;
    std::int64_t k;
  };
  static constexpr std::int64_t kAnyClass = -1;
  std::int64_t row(Member m) const { return m.c == kAnyClass ? row(m.k) : row(m.c, m.k); }
  // out[i] = row(member_at(i)). Members of a large table are far apart: several are asked for
  // before the first is needed.
  template <typename MemberAt>
  void rows_of(std::span<std::int64_t> out, MemberAt member_at) const {
    if (is_runs()) {
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = row(member_at(i));
      return;
    }
    constexpr std::size_t kAhead = 32;
    for (std::size_t begin = 0; begin < out.size(); begin += kAhead) {
      const std::size_t end = std::min(begin + kAhead, out.size());
      for (std::size_t i = begin; i < end; ++i) {
        const Member m = member_at(i);
        out[i] = m.c == kAnyClass ? m.k : begin_of(m.c) + m.k;
        prefetch(out[i]);
      }
      for (std::size_t i = begin; i < end; ++i) out[i] = row(out[i]);
    }
  }
  // The samples, labelled or not.
  const SampleSet& samples() const { return set_; }
  // The value of its class for each sample, 0 where it has no label. REQUIRES: n_classes() values.
  std::vector<double> per_sample(std::span<const double> of_class) const;
  // Class of labelled sample k.
  std::int64_t class_of(std::int64_t k) const;
  bool is_runs() const { return members32_.empty() && members64_.empty(); }
  std::int64_t bytes() const;
  std::uint64_t fingerprint() const { return fingerprint_; }

 private:
  std::int64_t begin_of(std::int64_t c) const { return class_begin_[static_cast<std::size_t>(c)]; }
  void prefetch(std::int64_t k) const {
    if (!members32_.empty()) __builtin_prefetch(&members32_[static_cast<std::size_t>(k)]);
    if (!members64_.empty()) __builtin_prefetch(&members64_[static_cast<std::size_t>(k)]);
  }
  std::int64_t row_in_runs(std::size_t first_run, std::size_t end_run, std::int64_t k) const;
  void set_classes(const std::vector<std::int64_t>& counts);
  void fill_runs(std::span<const LabelRun> runs);
  template <typename T>
  void fill_members(std::span<const std::int32_t> codes, std::vector<T>& members);

  SampleSet set_;
  std::vector<std::int32_t> codes_;          // of the classes, increasing
  std::vector<std::int64_t> class_begin_;    // labelled samples before class c; one more at the end
  std::vector<std::int64_t> class_of_code_;  // -1 for a code without members
  // Runs, class by class: labelled samples before the run, and its first sample.
  std::vector<std::int64_t> run_begin_;
  std::vector<std::int64_t> run_sample_;
  std::vector<std::size_t> class_run_;  // first run of class c; one more at the end
  // Or samples, class by class.
  std::vector<std::uint32_t> members32_;
  std::vector<std::int64_t> members64_;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace cellfeed::sampling
