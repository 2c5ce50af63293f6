#include "cellfeed/convert/cache/fetched_parts.h"

#include <algorithm>
#include <numeric>

namespace cellfeed::convert {

using format::CsrTarget;
using format::DenseTarget;
using format::FetchedRows;

std::pair<std::int64_t, std::int64_t> FetchedPart::range(std::int64_t begin,
                                                         std::int64_t end) const {
  const auto at = [&](std::int64_t place) {
    if (is_contiguous()) return std::clamp(place - places.front(), std::int64_t{0}, n_rows());
    return std::ranges::lower_bound(places, place) - places.begin();
  };
  return {at(begin), at(end)};
}

std::int64_t FetchedParts::sum(std::int64_t (FetchedRows::*of)() const) const {
  return std::accumulate(
      parts_.begin(), parts_.end(), std::int64_t{0},
      [&](std::int64_t total, const FetchedPart& part) { return total + ((*part.rows).*of)(); });
}

void FetchedParts::wait() {
  for (FetchedPart& part : parts_) with_part(part, [&] { part.rows->wait(); });
}

void FetchedParts::run(std::int64_t task) {
  for (FetchedPart& part : parts_) {
    if (task < part.rows->n_tasks()) return with_part(part, [&] { part.rows->run(task); });
    task -= part.rows->n_tasks();
  }
}

void FetchedParts::sizes(std::span<std::int64_t> nnz) const {
  if (parts_.size() == 1)
    return with_part(parts_.front(), [&] { parts_.front().rows->sizes(nnz); });
  std::vector<std::int64_t> own;
  for (const FetchedPart& part : parts_) {
    own.resize(part.places.size());
    with_part(part, [&] { part.rows->sizes(own); });
    for (std::size_t i = 0; i < own.size(); ++i) nnz[part.places[i]] = own[i];
  }
}

void FetchedParts::prefetch(std::int64_t begin, std::int64_t end) const {
  for (const FetchedPart& part : parts_) {
    const auto [first, last] = part.range(begin, end);
    if (first < last) part.rows->prefetch(first, last);
  }
}

// What the first rows of a part wait for passes while the parts before it are decoded.
void FetchedParts::prefetch_later_parts(std::int64_t begin, std::int64_t end) const {
  for (std::size_t p = 1; p < parts_.size(); ++p) {
    const auto [first, last] = parts_[p].range(begin, end);
    if (first < last) parts_[p].rows->prefetch(first, std::min(last, first + format::kRowsAhead));
  }
}

void FetchedParts::decode(std::int64_t begin, std::int64_t end, const CsrTarget& target) const {
  prefetch_later_parts(begin, end);
  for (const FetchedPart& part : parts_) {
    const auto [first, last] = part.range(begin, end);
    if (first < last) scatter(part, first, last, target);
  }
}

void FetchedParts::scatter(const FetchedPart& part, std::int64_t first, std::int64_t last,
                           const CsrTarget& target) const {
  CsrTarget own = target;
  if (part.is_contiguous()) {
    own.place += part.places.front();
    own.counts += part.places.front();
    return decode_part(part, first, last, own);
  }
  thread_local std::vector<std::int64_t> place;
  thread_local std::vector<std::int32_t> counts;
  place.resize(part.places.size());
  counts.resize(part.places.size());
  for (std::int64_t i = first; i < last; ++i) place[i] = target.place[part.places[i]];
  own.place = place.data();
  own.counts = counts.data();
  decode_part(part, first, last, own);
  for (std::int64_t i = first; i < last; ++i) target.counts[part.places[i]] = counts[i];
}

void FetchedParts::decode_dense(std::int64_t begin, std::int64_t end,
                                const DenseTarget& target) const {
  thread_local std::vector<std::int64_t> place;
  prefetch_later_parts(begin, end);
  for (const FetchedPart& part : parts_) {
    const auto [first, last] = part.range(begin, end);
    if (first == last) continue;
    DenseTarget own = target;
    if (part.is_contiguous()) {
      own.place += part.places.front();
    } else {
      place.resize(part.places.size());
      for (std::int64_t i = first; i < last; ++i) place[i] = target.place[part.places[i]];
      own.place = place.data();
    }
    decode_part_dense(part, first, last, own);
  }
}

}  // namespace cellfeed::convert
