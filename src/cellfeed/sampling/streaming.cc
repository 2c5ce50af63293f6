// Streaming: storage order, optionally shuffled in a window.
#include "cellfeed/sampling/streaming.h"

#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/sampling/group_shuffle.h"

namespace cellfeed::sampling {

Streaming::Streaming(std::int64_t n_rows, Indices indices, bool shuffle,
                     std::int64_t shuffle_buffer)
    : set_(n_rows, std::move(indices)),
      shuffle_(shuffle || shuffle_buffer > 0),
      shuffle_buffer_(shuffle_buffer) {
  if (shuffle_buffer < 0) {
    throw_invalid("shuffle_buffer is {}; give the number of rows, or 0 for the fetch group",
                  shuffle_buffer);
  }
  Fingerprint print(name());
  set_.add_to(print);
  fingerprint_ = print.add(shuffle_).add_signed(shuffle_buffer_).value();
}

std::int64_t Streaming::length(const OrderKey&) const { return set_.size(); }

void Streaming::samples(const OrderKey& key, std::int64_t begin, std::int64_t stride,
                        std::span<std::int64_t> out) const {
  if (!shuffle_) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = set_[begin + static_cast<std::int64_t>(i) * stride];
    }
    return;
  }
  const std::int64_t window = shuffle_buffer_ > 0 ? shuffle_buffer_ : key.fetch_samples;
  for_each_in_group_order(key, window, set_.size(), begin, stride, out,
                          [this](std::int64_t position) { return set_[position]; });
}

}  // namespace cellfeed::sampling
