// Features: the rows that a 10x file's matrix has, and which of them are the genes of a store.
// Thread-safe: immutable.
#pragma once

#include <arrow/type_fwd.h>

#include <memory>
#include <string>
#include <vector>

#include "cellfeed/format/tenx/chosen_features.h"
#include "cellfeed/format/tenx/tenx_file.h"
#include "cellfeed/hdf5/file.h"

namespace cellfeed::format::tenx {

class Features {
 public:
  // Reads names, types and genomes. Throws kInvalidArgument listing what there is where nothing
  // would be left, kCorruptData. Lifetime: keeps the file.
  Features(hdf5::File file, TenxMatrix matrix, const FeatureChoice& choice);

  const ChosenFeatures& chosen() const { return chosen_; }
  std::vector<std::string> names() const;
  // "_index" and the columns that scanpy.read_10x_h5 gives, of those that are kept.
  std::shared_ptr<arrow::Table> table() const;

 private:
  std::vector<std::string> read_texts(const std::string& name) const;
  std::shared_ptr<arrow::Array> read_column(const std::string& name) const;
  // Where a column of this name lies in the file.
  std::string path_of(const std::string& name) const;

  const hdf5::File file_;
  const TenxMatrix matrix_;
  ChosenFeatures chosen_;
};

}  // namespace cellfeed::format::tenx
