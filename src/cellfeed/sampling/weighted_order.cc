// Efraimidis-Spirakis keys, selected and sorted.
#include "cellfeed/sampling/weighted_order.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace cellfeed::sampling {

std::vector<std::int64_t> draw_without_replacement(
    const RandomStream& stream, std::uint64_t round, std::int64_t n, std::int64_t count,
    const std::function<double(std::int64_t)>& weight) {
  std::vector<std::pair<double, std::int64_t>> keys;
  keys.reserve(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    const double w = weight(i);
    if (w <= 0) continue;
    const std::uint64_t bits = stream.bits(static_cast<std::uint64_t>(i), round) >> 11;
    const double u = (static_cast<double>(bits) + 0.5) / 9007199254740992.0;
    keys.emplace_back(-std::log(u) / w, i);
  }
  const auto end = keys.begin() + count;
  if (end != keys.end()) std::nth_element(keys.begin(), end, keys.end());
  std::sort(keys.begin(), end);
  std::vector<std::int64_t> out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = keys[i].second;
  return out;
}

RoundCache::Round RoundCache::get(const RoundKey& key, std::int64_t capacity,
                                  const std::function<std::vector<std::int64_t>()>& make) {
  const std::lock_guard lock(mutex_);
  auto hit = std::find_if(entries_.begin(), entries_.end(),
                          [&](const Entry& entry) { return entry.key == key; });
  if (hit == entries_.end()) {
    while (static_cast<std::int64_t>(entries_.size()) >= capacity) entries_.pop_back();
    entries_.push_back({key, std::make_shared<const std::vector<std::int64_t>>(make())});
    hit = entries_.end() - 1;
  }
  std::rotate(entries_.begin(), hit, hit + 1);
  return entries_.front().rows;
}

}  // namespace cellfeed::sampling
