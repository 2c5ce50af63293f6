#include "cellfeed/convert/inputs/matrix_sources.h"

#include <algorithm>
#include <set>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/convert/inputs/written_name.h"

namespace cellfeed::convert {
namespace {

std::string layer_name(const std::string& name) {
  std::string path = format::layer_path(name);
  if (path != "X" && !path.starts_with("layers/"))
    throw_invalid(
        "'{}' cannot be one of layers: obsm= names arrays of obsm, and raw has genes of its own: "
        "write it by itself; a layer of that name is 'layers/{}'",
        name, name);
  return path;
}

std::string obsm_name(const std::string& name) {
  return format::is_obsm(name) ? name : "obsm/" + name;
}

void require_same_cells(const Sources& first, const Sources& other, const std::string& name) {
  for (std::int64_t s = 0; s < first.n_sources(); ++s) {
    const format::StoreInfo& info = first.store(s).info();
    const std::int64_t n_rows = s < other.n_sources() ? other.store(s).info().n_rows : 0;
    if (n_rows != info.n_rows)
      throw_error(ErrorKind::kInvalidArgument, info.path, "'{}' has {} cells, and '{}' has {}",
                  info.layer, info.n_rows, name, n_rows);
  }
  if (first.n_sources() != other.n_sources())
    throw_invalid("'{}' is in {} stores, and '{}' in {}", first.store(0).info().layer,
                  first.n_sources(), name, other.n_sources());
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

std::vector<MatrixSource> open_matrices(const Sources& first, const SourceOptions& options,
                                        const std::vector<std::string>& names) {
  std::vector<MatrixSource> matrices;
  for (const std::string& name : names) {
    if (name == options.layer)
      throw_invalid("'{}' cannot be one of layers: it is the matrix that layer= names", name);
    const bool is_obsm = format::is_obsm(name);
    SourceOptions own = options;
    own.layer = name;
    own.is_beside = true;
    own.cache_bytes = options.cache_bytes / std::ssize(names);
    if (is_obsm) {
      own.join.clear();
      own.genes.clear();
      own.var_keys.clear();
      own.make_unique = false;
    }
    auto sources = std::make_unique<Sources>(Sources::open(own));
    require_same_cells(first, *sources, name);
    matrices.push_back({written_name(name), std::move(sources)});
  }
  return matrices;
}

void require_same_genes(const Sources& first, const std::vector<MatrixSource>& matrices) {
  for (const MatrixSource& matrix : matrices)
    if (!format::is_obsm(matrix.name) && matrix.sources->genes().names != first.genes().names)
      throw_error(ErrorKind::kInvalidArgument, first.store(0).info().path,
                  "'{}' has other genes than '{}': write it by itself", matrix.name,
                  first.store(0).info().layer);
}

}  // namespace cellfeed::convert
