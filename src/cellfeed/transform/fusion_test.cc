// Fused lists of transforms give what the list as written gives, to the bit.
#include "cellfeed/transform/fusion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "cellfeed/base/error.h"
#include "cellfeed/testing/each_target.h"
#include "cellfeed/transform/normalize.h"
#include "cellfeed/transform/select_genes.h"

namespace cellfeed::transform {
namespace {

using ::testing::ElementsAre;

constexpr std::int32_t kGenes = 400;

class Negate final : public Transform {
 public:
  std::string name() const override { return "Negate"; }
  void apply(Row& row) const override {
    for (std::int32_t i = 0; i < row.size; ++i) static_cast<float*>(row.values)[i] *= -0.001f;
  }
};

matrix::GeneAxis genes() {
  matrix::GeneAxis axis;
  for (int g = 0; g < kGenes; ++g) axis.names.push_back(std::to_string(g));
  return axis;
}

std::shared_ptr<const Transform> every_third_gene_backwards() {
  std::vector<std::string> names;
  for (int g = kGenes - 1; g >= 0; g -= 3) names.push_back(std::to_string(g));
  return SelectGenes(names).bind(genes());
}

template <typename T>
struct Cell {
  std::vector<std::int32_t> indices;
  std::vector<T> values;
  bool operator==(const Cell&) const = default;
};

template <typename T>
Cell<T> run(const Transforms& transforms, double library_size) {
  std::mt19937 random(4);
  Cell<T> cell;
  for (std::int32_t g = 0; g < kGenes; ++g)
    if (random() % 3 != 0) {
      cell.indices.push_back(g);
      cell.values.push_back(static_cast<T>(random() % 50));
    }
  Row row{cell.indices.data(), cell.values.data(),
          dtype_of<T>(),       static_cast<std::int32_t>(cell.values.size()),
          library_size,        0};
  for (const auto& transform : transforms) transform->apply(row);
  cell.indices.resize(static_cast<std::size_t>(row.size));
  cell.values.resize(static_cast<std::size_t>(row.size));
  return cell;
}

std::vector<std::string> names(const Transforms& transforms) {
  std::vector<std::string> out;
  for (const auto& transform : transforms) out.push_back(transform->name());
  return out;
}

TEST(Fusion, GivesTheSameBitsInFewerPasses) {
  const auto normalize = std::make_shared<NormalizeTotal>(1e4);
  const auto log1p = std::make_shared<Log1p>(2);
  const auto select = every_third_gene_backwards();
  for (const Transforms& written :
       {Transforms{normalize, log1p, select}, Transforms{normalize, select, log1p},
        Transforms{select, normalize, log1p}}) {
    const Transforms fused = fuse_transforms(written);
    EXPECT_THAT(names(fused), ElementsAre("SelectGenes", "NormalizeTotal, Log1p"));
    cellfeed::testing::for_each_target([&] {
      for (const double library_size : {0.0, 7.0, 12345.0}) {
        EXPECT_EQ(run<float>(fused, library_size), run<float>(written, library_size));
        EXPECT_EQ(run<double>(fused, library_size), run<double>(written, library_size));
      }
    });
    EXPECT_THROW(run<float>(fused, -1), Error);
  }
}

TEST(Fusion, LeavesAloneWhatDependsOnOrder) {
  const auto normalize = std::make_shared<NormalizeTotal>();
  const auto log1p = std::make_shared<Log1p>();
  const auto negate = std::make_shared<Negate>();
  const auto select = every_third_gene_backwards();
  EXPECT_THAT(names(fuse_transforms({normalize, negate, log1p, select})),
              ElementsAre("NormalizeTotal", "Negate", "SelectGenes", "Log1p"));
  EXPECT_THAT(names(fuse_transforms({log1p, normalize})), ElementsAre("Log1p", "NormalizeTotal"));
  EXPECT_THAT(names(fuse_transforms({normalize, log1p, log1p})),
              ElementsAre("NormalizeTotal, Log1p", "Log1p"));
  EXPECT_THAT(names(fuse_transforms({})), ElementsAre());
}

}  // namespace
}  // namespace cellfeed::transform
