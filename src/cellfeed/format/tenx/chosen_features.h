// ChosenFeatures: which features of a 10x matrix are the genes of a store, by type and genome.
// Thread-safe once the choice is made.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace cellfeed::format::tenx {

// The default: other types, such as antibodies, are counts of another kind.
inline constexpr char kGeneExpression[] = "Gene Expression";
inline constexpr char kAllTypes[] = "all";

struct FeatureChoice {
  std::string genome;        // empty: any
  std::string feature_type;  // empty: kGeneExpression; or kAllTypes
};

class ChosenFeatures {
 public:
  // All of them, to begin with. path: for errors.
  ChosenFeatures(std::string path, std::int64_t n_features);

  // Each narrows the choice down. genomes, types: of each feature. Both throw kInvalidArgument
  // listing what there is where nothing would be left.
  void keep_genome(std::span<const std::string> genomes, const std::string& genome);
  void keep_type(std::span<const std::string> types, const std::string& wanted);
  // Of a matrix whose features have no types. holder: "files of Cell Ranger 2".
  void require_gene_expression(const std::string& wanted, const std::string& holder) const;

  // Feature -> column of the store, -1 where it is left out; empty where all are kept.
  const std::vector<std::int32_t>& columns() const { return columns_; }
  std::int64_t n_kept() const { return n_kept_; }
  // What is left out though nobody asked for that; empty where there is nothing.
  const std::string& left_out() const { return left_out_; }
  // Of those that are kept. REQUIRES: one value for each feature.
  std::vector<std::string> kept(std::vector<std::string> all) const;
  std::shared_ptr<arrow::Array> kept(const std::shared_ptr<arrow::Array>& all) const;

 private:
  void number_columns();

  const std::string path_;
  std::vector<bool> is_kept_;
  std::vector<std::int32_t> columns_;
  std::int64_t n_kept_ = 0;
  std::string left_out_;
};

}  // namespace cellfeed::format::tenx
