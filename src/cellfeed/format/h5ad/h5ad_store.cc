#include "cellfeed/format/h5ad/h5ad_store.h"

#include <utility>

#include "cellfeed/format/anndata/anndata_store.h"

namespace cellfeed::format::h5ad {

std::unique_ptr<RowStore> open_h5ad(const std::string& path, const OpenOptions& options) {
  return open_h5ad(std::make_unique<H5File>(path, options.access != "map"), options);
}

std::unique_ptr<RowStore> open_h5ad(std::unique_ptr<H5File> file, const OpenOptions& options) {
  return anndata::open_anndata(std::move(file), "h5ad", options);
}

}  // namespace cellfeed::format::h5ad
