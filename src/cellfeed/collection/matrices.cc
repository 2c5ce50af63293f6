// Several matrices of the same cells as one collection.
#include <algorithm>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/collection/collection.h"

namespace cellfeed::collection {
namespace {

// Stores of one matrix may be cut otherwise than those of another.
void require_same_cells(const Collection& cells, const NamedMatrix& matrix) {
  const Collection& others = *matrix.cells;
  if (cells.n_stores() == others.n_stores())
    for (std::int64_t s = 0; s < cells.n_stores(); ++s)
      if (const auto& info = cells.store(s).info(); info.n_rows != others.store(s).info().n_rows)
        throw_error(ErrorKind::kInvalidArgument, info.path, "'{}' has {} cells, and '{}' has {}",
                    info.layer, info.n_rows, matrix.name, others.store(s).info().n_rows);
  if (cells.n_rows() != others.n_rows())
    throw_invalid("'{}' has {} cells in all files, and '{}' has {}", cells.store(0).info().layer,
                  cells.n_rows(), matrix.name, others.n_rows());
}

}  // namespace

std::shared_ptr<const Collection> Collection::with_matrices(
    std::vector<NamedMatrix> matrices) const {
  if (matrices.empty()) return shared_from_this();
  for (const NamedMatrix& matrix : matrices) require_same_cells(*this, matrix);
  const std::shared_ptr<Collection> copy(new Collection(*this));
  // Of layers it is that of this matrix; raw may lack other genes.
  for (const NamedMatrix& matrix : matrices)
    if (const auto& text = matrix.cells->missing_genes_text();
        !text.empty() && text != missing_genes_text_)
      copy->missing_genes_text_ += fmt::format(
          "{}'{}': {}", copy->missing_genes_text_.empty() ? "" : "; ", matrix.name, text);
  copy->matrices_ = std::move(matrices);
  copy->cache_ = std::make_shared<CacheState>(cache_->own_bytes);
  copy->change_cache(0, 0);
  return copy;
}

bool Collection::has_first_genes(std::size_t m) const {
  return !is_obsm(matrix_name(m)) && matrix(m).genes().names == genes().names;
}

void Collection::require_equal_columns() const {
  const format::StoreInfo& first = stores_[0]->info();
  const std::vector<std::string>& names = stores_[0]->genes().names;
  for (const auto& store : stores_) {
    const auto& info = store->info();
    if (info.n_cols != first.n_cols)
      throw_error(
          ErrorKind::kInvalidArgument, info.path,
          "'{}' has {} columns, and {} in {}; columns of obsm are not joined: leave it out, "
          "or write files of one width",
          info.layer, info.n_cols, first.n_cols, first.path);
    const auto& own = store->genes().names;
    const auto [one, other] = std::ranges::mismatch(own, names);
    if (one != own.end())
      throw_error(
          ErrorKind::kInvalidArgument, info.path,
          "column {} of '{}' is '{}', and '{}' in {}; columns of obsm are not joined: leave "
          "it out, or write files with the same columns",
          one - own.begin(), info.layer, *one, *other, first.path);
  }
}

}  // namespace cellfeed::collection
