#include "cellfeed/convert/cell_tasks.h"

#include <arrow/api.h>

#include <limits>

namespace cellfeed::convert {

std::vector<CellTask> make_cell_tasks(std::span<const Sources* const> matrices, std::int64_t begin,
                                      std::int64_t end, std::span<const CellTaskSizes> sizes) {
  constexpr auto kAnyBytes = std::numeric_limits<std::int64_t>::max() / 4;
  const Sources& first = *matrices[0];
  std::vector<CellTask> tasks;
  for (const SourceRange& obs : first.split(begin, end, sizes[0].obs_cells, kAnyBytes)) {
    tasks.push_back({true, obs});
    const std::int64_t offset = first.offsets()[obs.source];
    for (std::size_t m = 0; m < matrices.size(); ++m)
      for (const SourceRange& rows : matrices[m]->split(offset + obs.begin, offset + obs.end,
                                                        sizes[m].piece_cells, sizes[m].piece_bytes))
        tasks.push_back({false, rows, m});
  }
  return tasks;
}

std::vector<CellTask> make_cell_tasks(const Sources& sources, std::int64_t begin, std::int64_t end,
                                      const CellTaskSizes& sizes) {
  const Sources* const matrices[] = {&sources};
  return make_cell_tasks(matrices, begin, end, {&sizes, 1});
}

std::int64_t plan_obs_bytes(const Sources& sources, const SourceRange& range) {
  constexpr std::int64_t kBytesPerField = 64;
  return kBytesPerField * range.n_cells() * sources.obs().schema()->num_fields();
}

}  // namespace cellfeed::convert
