#include "cellfeed/format/shard/record/record_distinct.h"

#include <hwy/contrib/sort/vqsort.h>

#include <algorithm>

namespace cellfeed::format::shard::record {

void sort_words(std::vector<std::uint64_t>& words) {
  // Below, vectors have nothing to win.
  constexpr std::size_t kFew = 128;
  if (words.size() < kFew) {
    std::ranges::sort(words);
    return;
  }
  static thread_local const hwy::Sorter sorter;
  sorter(words.data(), words.size(), hwy::SortAscending());
}

}  // namespace cellfeed::format::shard::record
