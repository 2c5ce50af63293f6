#include "cellfeed/convert/inputs/matrix_sources.h"

#include <algorithm>
#include <set>
#include <utility>

#include "cellfeed/base/argument_text.h"
#include "cellfeed/base/error.h"
#include "cellfeed/convert/inputs/written_name.h"

namespace cellfeed::convert {
namespace {

std::string layer_name(const std::string& name) {
  std::string path = format::layer_path(name);
  if (path != "X" && !path.starts_with("layers/"))
    throw_invalid(
        "'{}' cannot be one of layers: {} names arrays of obsm, and raw has genes of its own: "
        "write "
        "it by itself; a layer of that name is 'layers/{}'",
        name, argument("obsm"), name);
  return path;
}

std::string obsm_name(const std::string& name) {
  return format::is_obsm(name) ? name : "obsm/" + name;
}

}  // namespace

std::vector<std::string> matrix_names(const std::vector<std::string>& layers,
                                      const std::vector<std::string>& obsm) {
  std::vector<std::string> names;
  for (const std::string& layer : layers) names.push_back(layer_name(layer));
  for (const std::string& array : obsm) names.push_back(obsm_name(array));
  std::set<std::string> seen;
  for (const std::string& name : names)
    if (!seen.insert(written_name(name)).second) throw_invalid("'{}' is asked for twice", name);
  return names;
}

std::vector<MatrixSource> matrices_of(const InputCells& input) {
  const auto& first = *input.cells;
  std::vector<MatrixSource> matrices;
  for (std::size_t m = 1; m < first.n_matrices(); ++m) {
    const std::string& name = first.matrix_name(m);
    const bool is_obsm = format::is_obsm(name);
    const auto names = is_obsm ? matrix_names({}, {name}) : matrix_names({name}, {});
    if (!is_obsm && first.matrix(m).genes().names != first.genes().names)
      throw_error(ErrorKind::kInvalidArgument, first.store(0).info().path,
                  "'{}' has other genes than '{}': write it by itself", name,
                  first.store(0).info().layer);
    matrices.push_back(
        {written_name(names[0]), std::make_unique<Sources>(Sources::of_matrix(input, m))});
  }
  return matrices;
}

}  // namespace cellfeed::convert
