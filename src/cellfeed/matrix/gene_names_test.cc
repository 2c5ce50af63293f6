#include "cellfeed/matrix/gene_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cellfeed::matrix {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string explain(const std::vector<std::string>& missing, GeneAxis axis) {
  const GeneAxis* axes[] = {&axis};
  return explain_missing_genes(missing, axes);
}

TEST(GeneNames, EnsemblIdsAreRecognised) {
  for (const char* id : {"ENSG00000141510", "ENSMUSG00000059552", "ENSG00000141510.16",
                         "ENSDARG00000035559", "FBgn0003996", "WBGene00000001"})
    EXPECT_TRUE(is_ensembl_id(id)) << id;
  for (const char* symbol : {"TP53", "A1BG", "ENSA", "", "ENS", "ENSG", "MT-CO1", "RP11-34P13.7"})
    EXPECT_FALSE(is_ensembl_id(symbol)) << symbol;
}

TEST(GeneNames, SaysWhyNamesAreNotThere) {
  EXPECT_THAT(explain({"ENSG00000141510"}, {{"TP53", "A1BG"}}), HasSubstr("has symbols ('TP53')"));
  EXPECT_THAT(explain({"TP53"}, {{"ENSG00000141510"}}), HasSubstr("has Ensembl ids"));
  EXPECT_THAT(explain({"tp53", "x"}, {{"TP53"}}), HasSubstr("1 of them differ in case only"));
  EXPECT_THAT(explain({"ENSG00000141510.16"}, {{"ENSG00000141510"}}), HasSubstr("version"));
  EXPECT_THAT(explain({"x"}, {{"TP53"}}), IsEmpty());
  EXPECT_THAT(explain({"x"}, {{}}), IsEmpty());
}

}  // namespace
}  // namespace cellfeed::matrix
