// RowStore: what is shared by every format.
#include "cellfeed/format/row_store.h"

#include "cellfeed/base/error.h"

namespace cellfeed::format {

void run_serially(std::int64_t n, const std::function<void(std::int64_t)>& task) {
  for (std::int64_t i = 0; i < n; ++i) task(i);
}

void FetchedRows::run(std::int64_t task) {
  throw Error(ErrorKind::kInternal, fmt::format("rows without tasks have no task {}", task));
}

std::unique_ptr<FetchedRows> fetch_rows(const RowStore& store, std::span<const std::int64_t> rows,
                                        const ParallelFor& parallel) {
  auto fetched = store.begin(rows);
  fetched->wait();
  if (const std::int64_t n = fetched->n_tasks(); n > 0)
    parallel(n, [&](std::int64_t task) { fetched->run(task); });
  return fetched;
}

}  // namespace cellfeed::format
