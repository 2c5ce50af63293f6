// JoinedVar: the gene tables of several sources as one. A value is that of the first source that
// has both the gene and the column, so no column of any source is lost, whatever their order.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/convert/inputs/table_union.h"

namespace cellfeed::convert {

class JoinedVar {
 public:
  explicit JoinedVar(std::int64_t n_genes) : n_genes_(n_genes) {}

  // map: row of var -> joined gene, -1 where it is dropped; empty where they are the same. What
  // says nothing new is not kept.
  void add_source(const arrow::Table& var, std::span<const std::int32_t> map,
                  const std::string& path);

  // Once, after the last source: a row for each joined gene, null where no source has a value.
  // Throws as TableUnion does where the types of a column cannot be united.
  std::shared_ptr<arrow::Table> finish();

 private:
  // A gene's row among those of all parts, -1 where no source has the gene so far.
  using Places = std::vector<std::int64_t>;

  std::int64_t n_genes_;
  std::int64_t n_rows_ = 0;               // of all parts
  std::map<std::string, Places> places_;  // of each column
  std::vector<std::shared_ptr<arrow::Table>> parts_;
  TableUnion union_{"var"};
};

}  // namespace cellfeed::convert
