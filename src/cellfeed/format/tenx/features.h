// Features: the rows that a 10x file's matrix has, and which of them are the genes of a store.
// Thread-safe: immutable.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cellfeed/format/tenx/tenx_file.h"
#include "cellfeed/hdf5/file.h"

namespace cellfeed::format::tenx {

// The default: other types, such as antibodies, are counts of another kind.
inline constexpr char kGeneExpression[] = "Gene Expression";
inline constexpr char kAllTypes[] = "all";

struct FeatureChoice {
  std::string genome;        // empty: any
  std::string feature_type;  // empty: kGeneExpression; or kAllTypes
};

class Features {
 public:
  // Reads names, types and genomes. Throws kInvalidArgument listing what there is where nothing
  // would be left, kCorruptData. Lifetime: keeps the file.
  Features(hdf5::File file, TenxMatrix matrix, const FeatureChoice& choice);

  // Feature -> column of the store, -1 where it is left out; empty where all are kept.
  const std::vector<std::int32_t>& columns() const { return columns_; }
  std::int64_t n_kept() const { return n_kept_; }
  std::vector<std::string> names() const;
  // What is left out though nobody asked for that; empty where there is nothing.
  const std::string& left_out() const { return left_out_; }
  // "_index" and the columns that scanpy.read_10x_h5 gives, of those that are kept.
  std::shared_ptr<arrow::Table> table() const;

 private:
  void keep_genome(const std::string& genome);
  void keep_type(const std::string& wanted);
  std::vector<std::string> read_texts(const std::string& name) const;
  std::shared_ptr<arrow::Array> read_column(const std::string& name) const;
  // Where a column of this name lies in the file.
  std::string path_of(const std::string& name) const;

  const hdf5::File file_;
  const TenxMatrix matrix_;
  std::vector<bool> is_kept_;
  std::vector<std::int32_t> columns_;
  std::int64_t n_kept_ = 0;
  std::string left_out_;
};

}  // namespace cellfeed::format::tenx
