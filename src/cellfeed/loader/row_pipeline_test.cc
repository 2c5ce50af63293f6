// The pipeline of a row against the transforms one by one, and then the gene join and the
// selections.
#include "cellfeed/loader/row_pipeline.h"

#include <arrow/api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "cellfeed/format/memory/memory_store.h"
#include "cellfeed/testing/random_csr.h"
#include "cellfeed/transform/normalize.h"
#include "cellfeed/transform/select_genes.h"

namespace cellfeed::loader {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Transforms = std::vector<std::shared_ptr<const transform::Transform>>;

// Stores of gene_0, gene_1, ... of several widths: the outer join sorts names, so all of them move.
std::shared_ptr<const collection::Collection> join(const std::vector<std::int64_t>& widths,
                                                   collection::Join how) {
  std::vector<std::unique_ptr<format::RowStore>> stores;
  for (const std::int64_t width : widths)
    stores.push_back(format::memory::make_memory_store(format::memory::make_stored_csr(
        testing::random_csr({.n_rows = 3, .n_cols = width, .density = 0.3}))));
  return std::make_shared<const collection::Collection>(std::move(stores),
                                                        collection::CollectionOptions{.join = how});
}

struct Cell {
  std::vector<std::int32_t> indices;
  std::vector<float> values;
  bool operator==(const Cell&) const = default;
};

Cell every_other_gene(std::int64_t n_genes) {
  Cell cell;
  for (std::int32_t g = 0; g < n_genes; g += 2) {
    cell.indices.push_back(g);
    cell.values.push_back(static_cast<float>(g % 9 + 1));
  }
  return cell;
}

template <typename Apply>
Cell changed(Cell cell, const Apply& apply) {
  transform::Row row{cell.indices.data(),
                     cell.values.data(),
                     DType::kF32,
                     static_cast<std::int32_t>(cell.indices.size()),
                     0,
                     0};
  apply(row);
  cell.indices.resize(static_cast<std::size_t>(row.size));
  cell.values.resize(static_cast<std::size_t>(row.size));
  return cell;
}

Cell one_by_one(const collection::Collection& cells, std::int64_t store,
                const Transforms& transforms, Cell cell) {
  return changed(std::move(cell), [&](transform::Row& row) {
    const auto is_selection = [](const auto& transform) {
      return transform->name() == "SelectGenes";
    };
    for (const auto& transform : transforms) {
      if (is_selection(transform)) continue;
      row.library_size = transform::library_size(row);
      transform->apply(row);
    }
    if (const auto map = cells.gene_map(store); !map.empty())
      transform::remap_row(row, transform::ColumnMap(map));
    matrix::GeneAxis genes = cells.genes();
    for (const auto& transform : transforms) {
      if (!is_selection(transform)) continue;
      transform->bind(genes)->apply(row);
      genes = transform->output_genes(genes);
    }
  });
}

TEST(RowPipeline, IsTheJoinAndTheTransformsOneByOne) {
  const std::vector<std::int64_t> widths{40, 90, 40, 60};
  // Forced: in any order.
  const auto normalize = std::make_shared<transform::NormalizeTotal>(1000, true);
  const auto log1p = std::make_shared<transform::Log1p>(0, true);
  const auto select = std::make_shared<transform::SelectGenes>(
      std::vector<std::string>{"gene_38", "gene_4", "gene_20", "gene_3", "gene_7"});
  const auto fewer = std::make_shared<transform::SelectGenes>(
      std::vector<std::string>{"gene_20", "gene_38", "gene_4"});
  for (const auto how : {collection::Join::kOuter, collection::Join::kInner})
    for (const Transforms& transforms :
         {Transforms{}, Transforms{select}, Transforms{normalize, log1p, select},
          Transforms{select, fewer, log1p}, Transforms{normalize}, Transforms{normalize, normalize},
          Transforms{log1p, select, normalize, fewer, log1p}}) {
      const auto cells = join(widths, how);
      const RowPipeline pipeline(*cells, {.transforms = transforms});
      for (std::size_t s = 0; s < widths.size(); ++s) {
        const auto store = static_cast<std::int64_t>(s);
        const Cell cell = every_other_gene(widths[s]);
        const Cell got = changed(cell, [&](transform::Row& row) { pipeline.apply(store, row); });
        EXPECT_EQ(got, one_by_one(*cells, store, transforms, cell)) << "store " << s;
        EXPECT_EQ(pipeline.is_identity(store),
                  transforms.empty() && cells->gene_map(store).empty());
      }
    }
}

TEST(RowPipeline, SelectsByName) {
  const auto cells = join({12, 30}, collection::Join::kOuter);
  const auto select = std::make_shared<transform::SelectGenes>(
      std::vector<std::string>{"gene_10", "gene_2", "gene_29"});
  const RowPipeline pipeline(*cells, {.transforms = {select}});
  EXPECT_THAT(pipeline.genes().names, ElementsAre("gene_10", "gene_2", "gene_29"));
  for (const std::int64_t store : {0, 1}) {
    const Cell got =
        changed({{1, 2, 10}, {5, 6, 7}}, [&](transform::Row& row) { pipeline.apply(store, row); });
    EXPECT_THAT(got.indices, ElementsAre(0, 1));
    EXPECT_THAT(got.values, ElementsAre(7, 6));
  }
  const Cell none = changed({{3}, {1}}, [&](transform::Row& row) { pipeline.apply(0, row); });
  EXPECT_THAT(none.indices, IsEmpty());
}

// Three cells of gene_0 .. gene_11, of which other genes make the totals.
std::unique_ptr<format::RowStore> store_with_totals(const std::vector<double>& totals) {
  arrow::DoubleBuilder builder;
  arrow::StringBuilder names;
  for (const double total : totals) {
    EXPECT_TRUE(builder.Append(total).ok());
    EXPECT_TRUE(names.Append("cell").ok());
  }
  const auto schema = arrow::schema({arrow::field("_index", arrow::utf8()),
                                     arrow::field(format::kLibrarySizeColumn, arrow::float64())});
  return format::memory::make_memory_store(
      format::memory::make_stored_csr(
          testing::random_csr({.n_rows = std::ssize(totals), .n_cols = 12, .density = 0.3})),
      arrow::Table::Make(schema, {names.Finish().ValueOrDie(), builder.Finish().ValueOrDie()}));
}

std::shared_ptr<const collection::Collection> with_and_without_totals() {
  std::vector<std::unique_ptr<format::RowStore>> stores;
  stores.push_back(format::memory::make_memory_store(format::memory::make_stored_csr(
      testing::random_csr({.n_rows = 5, .n_cols = 12, .density = 0.3}))));
  stores.push_back(store_with_totals({100, 200, 0, 10}));
  return std::make_shared<const collection::Collection>(std::move(stores),
                                                        collection::CollectionOptions{});
}

TEST(RowPipeline, NormalizesByTheTotalThatAStoreKnows) {
  const auto cells = with_and_without_totals();
  const auto normalize = std::make_shared<transform::NormalizeTotal>(1000);
  const auto select = std::make_shared<transform::SelectGenes>(std::vector<std::string>{"gene_2"});
  for (const Transforms& transforms : {Transforms{normalize}, Transforms{select, normalize}}) {
    const RowPipeline pipeline(*cells, {.transforms = transforms});
    const auto value = [&](std::int64_t store, std::int64_t cell) {
      return changed({{2, 7}, {5, 15}},
                     [&](transform::Row& row) {
                       row.cell = cell;
                       pipeline.apply(store, row);
                     })
          .values[0];
    };
    EXPECT_EQ(value(0, 4), 250);
    EXPECT_EQ(value(1, 5), 50);
    EXPECT_EQ(value(1, 6), 25);
    EXPECT_THROW(value(1, 7), Error);  // counts, and a total of 0
    EXPECT_THROW(value(1, 8), Error);  // counts of more than the total
  }
}

TEST(RowPipeline, RefusesTotalsOfWhatATransformMakesOfGenesThatAreNotThere) {
  const auto cells = with_and_without_totals();
  // Forced: in any order.
  const auto normalize = std::make_shared<transform::NormalizeTotal>(1000, true);
  const auto log1p = std::make_shared<transform::Log1p>(0, true);
  for (const Transforms& transforms :
       {Transforms{log1p, normalize}, Transforms{normalize, normalize}})
    EXPECT_THROW(RowPipeline(*cells, {.transforms = transforms}), Error);
  EXPECT_NO_THROW(RowPipeline(*cells, {.transforms = {normalize, log1p}}));
  EXPECT_NO_THROW(RowPipeline(*cells, {.transforms = {log1p}}));
}

}  // namespace
}  // namespace cellfeed::loader
