#include "cellfeed/convert/inputs/left_out_matrices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cellfeed/collection/paths.h"
#include "cellfeed/format/matrix_list.h"
#include "cellfeed/format/open_side_by_side.h"
#include "cellfeed/format/shard/manifest.h"
#include "cellfeed/format/shard/shard_store.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::convert {
namespace {

std::vector<std::string> matrices_at(const std::string& path, const std::string& modality) {
  std::vector<std::string> names;
  if (format::shard::is_shard_dir(path)) {
    for (const auto& matrix : format::shard::read_manifest(path).matrices)
      names.push_back(matrix.name);
  } else {
    for (const auto& matrix : format::list_matrices(path, modality)) names.push_back(matrix.name);
  }
  return names;
}

}  // namespace

std::string left_out_matrices(const std::vector<std::string>& inputs, const std::string& kept,
                              const std::string& modality) {
  const std::vector<std::string> paths = collection::expand_paths(inputs);
  std::vector<std::vector<std::string>> found(paths.size());
  format::wait_side_by_side(std::ssize(paths), std::ranges::all_of(paths, io::is_local),
                            [&](std::int64_t i) {
                              auto& names = found[static_cast<std::size_t>(i)];
                              names = matrices_at(paths[static_cast<std::size_t>(i)], modality);
                              std::erase(names, kept);
                            });
  const auto first = std::ranges::find_if(
      found, [](const std::vector<std::string>& names) { return !names.empty(); });
  if (first == found.end()) return {};
  const auto others =
      std::count_if(first + 1, found.end(), [](const auto& names) { return !names.empty(); });
  return fmt::format("{} holds {} too, which {} left out{}",
                     paths[static_cast<std::size_t>(first - found.begin())],
                     fmt::join(*first, ", "), first->size() == 1 ? "is" : "are",
                     others > 0 ? fmt::format("; so do {} more of the inputs", others) : "");
}

}  // namespace cellfeed::convert
