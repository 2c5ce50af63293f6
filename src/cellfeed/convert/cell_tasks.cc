#include "cellfeed/convert/cell_tasks.h"

#include <arrow/api.h>

#include <limits>

namespace cellfeed::convert {

std::vector<CellTask> make_cell_tasks(const Sources& sources, std::int64_t begin, std::int64_t end,
                                      const CellTaskSizes& sizes) {
  constexpr auto kAnyBytes = std::numeric_limits<std::int64_t>::max() / 4;
  std::vector<CellTask> tasks;
  for (const SourceRange& obs : sources.split(begin, end, sizes.obs_cells, kAnyBytes)) {
    tasks.push_back({true, obs});
    const std::int64_t offset = sources.offsets()[obs.source];
    for (const SourceRange& rows :
         sources.split(offset + obs.begin, offset + obs.end, sizes.piece_cells, sizes.piece_bytes))
      tasks.push_back({false, rows});
  }
  return tasks;
}

std::int64_t plan_obs_bytes(const Sources& sources, const SourceRange& range) {
  constexpr std::int64_t kBytesPerField = 64;
  return kBytesPerField * range.n_cells() * sources.obs().schema()->num_fields();
}

}  // namespace cellfeed::convert
