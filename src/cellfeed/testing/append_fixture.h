// Files to append to shards, and what becomes of these. Tests only.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/convert/append/append.h"
#include "cellfeed/testing/read_back.h"
#include "cellfeed/testing/small_atlas.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::testing {

// Two files to convert and one to append: other cells, other labels, the same genes.
class AppendFixture : public ::testing::Test {
 protected:
  AppendFixture() {
    write("a.h5ad", {.n_cells = 60, .seed = 1});
    write("b.h5ad", {.n_cells = 35, .seed = 2, .cell_types = {"T cell", "unused", "NK cell"}});
    write("c.h5ad", {.n_cells = 45, .seed = 3, .cell_types = {"ILC", "B cell", "unused"}});
  }

  std::string write(const std::string& name, const SmallAtlasOptions& options) const {
    return SmallAtlas(options).write(dir_.file(name));
  }
  convert::ConvertOptions conversion(const std::string& output,
                                     const std::vector<std::string>& inputs,
                                     convert::InputOptions how = {}) const {
    convert::ConvertOptions options;
    for (const std::string& input : inputs) how.paths.push_back(dir_.file(input));
    options.input = convert::open_inputs(how).input;
    options.output_dir = dir_.file(output);
    options.shard_size = 25;
    options.threads = 2;
    return options;
  }
  // Opened with what the shards have.
  convert::AppendOptions append(const std::vector<std::string>& inputs,
                                const std::string& to = "shards",
                                convert::InputOptions how = {.layer = ""}) const {
    auto there = convert::matrices_to_append(dir_.file(to), how.layer);
    how.layer = there.layer;
    how.layers = std::move(there.layers);
    how.obsm = std::move(there.obsm);
    how.genes = std::move(there.genes);
    convert::AppendOptions options;
    options.convert = conversion(to, inputs, std::move(how));
    options.convert.shard_size = 0;
    return options;
  }
  std::map<std::string, std::vector<std::byte>> bytes() const { return directory_bytes(shards_); }
  // What append says where it must fail; the shards are as they were, but for a journal.
  std::string refusal(const convert::AppendOptions& options, ErrorKind kind) const {
    const auto before = bytes();
    std::string said = "was accepted";
    try {
      convert::append_to_shards(options);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      said = error.what();
    }
    EXPECT_EQ(bytes(), before);
    return said;
  }

  TempDir dir_;
  const std::string shards_ = dir_.file("shards");
};

inline void expect_same_cells(const ReadBack& found, const ReadBack& wanted) {
  EXPECT_EQ(found.rows, wanted.rows);
  EXPECT_EQ(found.genes, wanted.genes);
  EXPECT_EQ(found.obs->schema()->field_names(), wanted.obs->schema()->field_names());
  for (const std::string& name : wanted.obs->ColumnNames())
    EXPECT_EQ(column_texts(*found.obs, name), column_texts(*wanted.obs, name)) << name;
}

}  // namespace cellfeed::testing
