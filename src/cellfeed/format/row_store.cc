// RowStore: what is shared by every format.
#include "cellfeed/format/row_store.h"

namespace cellfeed::format {

void run_serially(std::int64_t n, const std::function<void(std::int64_t)>& task) {
  for (std::int64_t i = 0; i < n; ++i) task(i);
}

}  // namespace cellfeed::format
