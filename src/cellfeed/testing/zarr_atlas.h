// A block of rows as the AnnData of a small zarr store. For tests.
#pragma once

#include <string>
#include <vector>

#include "cellfeed/base/dtype.h"
#include "cellfeed/matrix/csr.h"
#include "cellfeed/testing/zarr_files.h"

namespace cellfeed::testing {

// X is CSR, its values of type `stored`; obs has the column "batch".
inline ZarrFiles zarr_atlas(const matrix::CsrBlock& block, DType stored, ZarrOptions options) {
  ZarrFiles store(options);
  store.add_group("", R"({"encoding-type": "anndata", "encoding-version": "0.1.0"})");
  store.add_group("X",
                  R"({"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": [)" +
                      std::to_string(block.n_rows) + ", " + std::to_string(block.n_cols) + "]}");
  store.add_numbers<std::int64_t>("X/indptr", block.indptr.span());
  store.add_numbers<std::int32_t>("X/indices", block.indices.span());
  dispatch_dtype(stored, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, bool>) {
      std::vector<T> values;
      std::visit(
          [&](const auto& buffer) {
            for (std::size_t i = 0; i < buffer.size(); ++i)
              values.push_back(static_cast<T>(buffer[i]));
          },
          block.values);
      store.add_numbers<T>("X/data", values);
    }
  });
  const auto add_names = [&](const std::string& group, char letter, std::int64_t n,
                             const std::string& columns) {
    std::vector<std::string> names;
    for (std::int64_t i = 0; i < n; ++i) names.push_back(letter + std::to_string(i));
    store.add_group(group, R"({"encoding-type": "dataframe", "encoding-version": "0.2.0", )"
                           R"("_index": "_index", "column-order": [)" +
                               columns + "]}");
    store.add_texts(group + "/_index", names);
  };
  add_names("obs", 'c', block.n_rows, R"("batch")");
  add_names("var", 'g', block.n_cols, "");
  std::vector<std::int32_t> batches;
  for (std::int64_t i = 0; i < block.n_rows; ++i)
    batches.push_back(static_cast<std::int32_t>(i % 3));
  store.add_numbers<std::int32_t>("obs/batch", batches);
  store.finish();
  return store;
}

}  // namespace cellfeed::testing
