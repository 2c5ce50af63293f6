// Stages of a list of transforms give what the list as written gives, to the bit.
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

template <typename T, typename Apply>
Cell<T> changed(const Apply& apply) {
  std::mt19937 random(4);
  Cell<T> cell;
  for (std::int32_t g = 0; g < kGenes; ++g)
    if (random() % 3 != 0) {
      cell.indices.push_back(g);
      cell.values.push_back(static_cast<T>(random() % 50));
    }
  Row row{cell.indices.data(),
          cell.values.data(),
          dtype_of<T>(),
          static_cast<std::int32_t>(cell.values.size()),
          0,
          0};
  apply(row);
  cell.indices.resize(static_cast<std::size_t>(row.size));
  cell.values.resize(static_cast<std::size_t>(row.size));
  return cell;
}

// Values one transform after another, each with the total it finds; then the columns.
template <typename T>
Cell<T> as_written(const Transforms& written) {
  return changed<T>([&](Row& row) {
    for (const auto& transform : written)
      if (transform->name() != "SelectGenes") {
        row.library_size = library_size(row);
        transform->apply(row);
      }
    for (const auto& transform : written)
      if (transform->name() == "SelectGenes") transform->apply(row);
  });
}

template <typename T>
Cell<T> in_stages(const Stages& stages) {
  return changed<T>([&](Row& row) {
    for (const auto& transform : stages.whole_row) {
      row.library_size = library_size(row);
      transform->apply(row);
    }
    row.library_size = library_size(row);
    for (const auto& transform : stages.selections) transform->apply(row);
    for (const auto& transform : stages.kept_genes) transform->apply(row);
  });
}

std::vector<std::string> names(const Transforms& transforms) {
  std::vector<std::string> out;
  for (const auto& transform : transforms) out.push_back(transform->name());
  return out;
}

const auto kNormalize = std::make_shared<NormalizeTotal>(1e4, true);  // in any order
const auto kLog1p = std::make_shared<Log1p>(2);

TEST(Stages, SelectFirstAndNormalizeInOnePass) {
  const auto select = every_third_gene_backwards();
  for (const Transforms& written :
       {Transforms{kNormalize, kLog1p, select}, Transforms{kNormalize, select, kLog1p},
        Transforms{select, kNormalize, kLog1p}}) {
    const Stages stages = plan_stages(written);
    EXPECT_THAT(names(stages.whole_row), ElementsAre());
    EXPECT_THAT(names(stages.selections), ElementsAre("SelectGenes"));
    EXPECT_THAT(names(stages.kept_genes), ElementsAre("NormalizeTotal, Log1p"));
  }
}

TEST(Stages, TakeEachTotalOfAllGenes) {
  const auto select = every_third_gene_backwards();
  const auto negate = std::make_shared<Negate>();
  const Stages stages = plan_stages({kNormalize, kLog1p, select, kNormalize, negate});
  EXPECT_THAT(names(stages.whole_row), ElementsAre("NormalizeTotal, Log1p"));
  EXPECT_THAT(names(stages.selections), ElementsAre("SelectGenes"));
  EXPECT_THAT(names(stages.kept_genes), ElementsAre("NormalizeTotal", "Negate"));
  const Stages later = plan_stages({kLog1p, kNormalize, kNormalize, kLog1p, kLog1p});
  EXPECT_THAT(names(later.whole_row), ElementsAre("Log1p", "NormalizeTotal"));
  EXPECT_THAT(names(later.kept_genes), ElementsAre("NormalizeTotal, Log1p", "Log1p"));
  EXPECT_THAT(names(plan_stages({}).kept_genes), ElementsAre());
  EXPECT_THAT(names(plan_stages({select, kLog1p}).kept_genes), ElementsAre("Log1p"));
}

TEST(Stages, GiveTheSameBits) {
  const auto select = every_third_gene_backwards();
  for (const Transforms& written :
       {Transforms{kNormalize, kLog1p, select}, Transforms{select, kLog1p, kNormalize},
        Transforms{kNormalize, kNormalize}, Transforms{kLog1p, select, kLog1p},
        Transforms{kNormalize, kLog1p, kNormalize, kLog1p, select}}) {
    const Stages stages = plan_stages(written);
    cellfeed::testing::for_each_target([&] {
      EXPECT_EQ(in_stages<double>(stages), as_written<double>(written));
      EXPECT_EQ(in_stages<float>(stages), as_written<float>(written));
    });
  }
}

TEST(LibrarySize, IsRefusedWhereValuesCancelOut) {
  float values[] = {2, 0, -2};
  std::int32_t indices[] = {0, 1, 2};
  EXPECT_THROW(library_size({indices, values, DType::kF32, 3, 0, 0}), Error);
  EXPECT_EQ(library_size({indices, values, DType::kF32, 2, 0, 0}), 2);
  EXPECT_EQ(library_size({indices, values + 1, DType::kF32, 1, 0, 0}), 0);
}

}  // namespace
}  // namespace cellfeed::transform
