// Annotations: all that a matrix of an AnnData file is not: obs, var and the gene axis of its
// cells, and what the stores of one file say of themselves. Thread-safe. Lifetime: the tree
// outlives it.
#pragma once

#include <arrow/type_fwd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cellfeed/format/anndata/dataframe.h"
#include "cellfeed/format/processing.h"
#include "cellfeed/format/stored_tree.h"
#include "cellfeed/matrix/csr.h"
#include "cellfeed/matrix/obs.h"

namespace cellfeed::format::anndata {

class Annotations {
 public:
  // layer: the path of the matrix in the file. column_names: of obsm, empty where they are numbers.
  // Throws what Dataframe throws.
  Annotations(const StoredTree& file, std::string layer, std::int64_t n_rows, std::int64_t n_cols,
              std::vector<std::string> column_names = {});
  // Of cells without a matrix, as many as obs has.
  explicit Annotations(const StoredTree& file);

  std::int64_t n_rows() const { return n_rows_; }

  const matrix::GeneAxis& genes() const { return *genes_; }
  std::vector<std::string> obs_names() const { return obs_.columns(); }
  // As those of RowStore.
  matrix::FixedColumn obs_column(const std::string& name) const;
  std::shared_ptr<arrow::Table> read_obs(std::int64_t begin, std::int64_t end) const;
  std::shared_ptr<arrow::Table> read_var() const;
  Processing processing() const;
  std::uint64_t fingerprint() const;

 private:
  const StoredTree& file_;
  const std::string layer_;
  Dataframe obs_;
  const std::int64_t n_rows_;
  const std::int64_t n_cols_;
  std::optional<Dataframe> var_;  // none of obsm, nor without a matrix
  std::shared_ptr<const matrix::GeneAxis> genes_;
  mutable std::atomic<std::uint64_t> fingerprint_{0};  // 0: not asked for yet
};

}  // namespace cellfeed::format::anndata
