// visit_fetched: the nodes of one level of an index, read in few round trips.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "cellfeed/hdf5/file_bytes.h"

namespace cellfeed::hdf5 {

// Visits items in order, with the bytes of so many of them asked for in one round trip that they
// all stay until they are visited. range(item): what visiting it reads first.
template <typename Item, typename Range, typename Visit>
void visit_fetched(const FileBytes& file, std::span<const Item> items, const Range& range,
                   const Visit& visit) {
  constexpr std::size_t kItemsATrip = 100;
  std::vector<AddressRange> ranges;
  for (std::size_t begin = 0; begin < items.size(); begin += kItemsATrip) {
    const auto group = items.subspan(begin, std::min(kItemsATrip, items.size() - begin));
    ranges.clear();
    for (const Item& item : group) ranges.push_back(range(item));
    file.fetch(ranges);
    for (const Item& item : group) visit(item);
  }
}

}  // namespace cellfeed::hdf5
