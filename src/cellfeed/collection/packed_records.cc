#include "cellfeed/collection/packed_records.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "cellfeed/base/error.h"

namespace cellfeed::collection {

std::vector<PackedPart> packed_records(const Collection& cells, std::int64_t begin,
                                       std::int64_t end) {
  if (begin < 0 || begin > end || end > cells.n_rows())
    throw Error(ErrorKind::kOutOfRange, fmt::format("cells [{}, {}) are not all inside the {}",
                                                    begin, end, cells.n_rows()));
  if (cells.has_selected_rows())
    throw Error(ErrorKind::kUnsupported,
                "records are those of whole files, and cells were chosen here: take them of the "
                "collection that these were chosen of");
  cells.processing();  // throws
  std::vector<PackedPart> parts;
  const auto offsets = cells.offsets();
  for (std::int64_t s = 0; s < cells.n_stores(); ++s) {
    const std::int64_t first = std::max(begin, offsets[s]);
    const std::int64_t last = std::min(end, offsets[s + 1]);
    if (first >= last) continue;
    const format::RowStore& store = cells.store(s);
    if (!cells.has_joined_axis(s))
      throw_error(ErrorKind::kUnsupported, store.info().path,
                  "its genes are not in the places that they have in the collection, and records "
                  "hold the file's own: open it alone, with all genes");
    std::optional<format::PackedRecords> records =
        store.packed_records(first - offsets[s], last - offsets[s]);
    if (!records)
      throw_error(ErrorKind::kUnsupported, store.info().path,
                  "its rows are not stored as packed records ({}, {}); `cellfeed shard` writes "
                  "them so",
                  store.info().format, store.info().compression);
    parts.push_back({first, *std::move(records)});
  }
  return parts;
}

}  // namespace cellfeed::collection
