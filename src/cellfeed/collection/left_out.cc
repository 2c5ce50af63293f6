// What stores leave out of their files.
#include "cellfeed/collection/left_out.h"

#include <fmt/format.h>

namespace cellfeed::collection {

std::string left_out_text(std::span<const format::RowStore* const> stores) {
  const format::StoreInfo* first = nullptr;
  std::int64_t n_more = 0;
  for (const format::RowStore* store : stores) {
    if (store->info().left_out.empty()) continue;
    if (first == nullptr)
      first = &store->info();
    else
      ++n_more;
  }
  if (first == nullptr) return {};
  return fmt::format("{}: {}{}", first->path, first->left_out,
                     n_more == 0 ? "" : fmt::format(" (likewise of {} more files)", n_more));
}

}  // namespace cellfeed::collection
