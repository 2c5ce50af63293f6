// Small shard directories for tests: rows and obs that follow from their number alone, and how to
// write them.
#pragma once

#include <arrow/api.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "cellfeed/format/shard/encoded_rows.h"
#include "cellfeed/format/shard/genes_file.h"
#include "cellfeed/format/shard/manifest.h"
#include "cellfeed/format/shard/obs/obs_schema.h"
#include "cellfeed/format/shard/partial_manifest.h"
#include "cellfeed/format/shard/shard_writer.h"

namespace cellfeed::testing {

struct ShardFixture {
  std::int64_t n_cells = 25;
  std::int64_t shard_size = 10;
  std::int64_t n_genes = 40;
  std::int64_t segment_bytes = 64;
  std::int64_t rows_per_append = 4;
  format::shard::Layout layout = format::shard::Layout::kPacked;
  DType dtype = DType::kF32;
  float (*value_of)(float count) = [](float count) { return count; };
};

struct FixtureRow {
  std::vector<std::int32_t> indices;
  std::vector<float> values;
};

// Every seventh row is empty.
inline FixtureRow fixture_row(std::int64_t cell, std::int64_t n_genes) {
  FixtureRow row;
  if (cell % 7 == 3) return row;
  for (std::int64_t gene = cell % 3; gene < n_genes; gene += 1 + (cell * 5 + gene) % 4) {
    row.indices.push_back(static_cast<std::int32_t>(gene));
    row.values.push_back(
        static_cast<float>(1 + (cell * 31 + gene * 17) % (gene % 11 == 0 ? 5000 : 6)));
  }
  return row;
}

template <typename Builder, typename Value>
std::shared_ptr<arrow::Array> build_column(std::int64_t begin, std::int64_t end,
                                           const Value& value) {
  Builder builder;
  for (std::int64_t i = begin; i < end; ++i) {
    const auto item = value(i);
    const auto status = item ? builder.Append(*item) : builder.AppendNull();
    if (!status.ok()) throw std::runtime_error(status.ToString());
  }
  return *builder.Finish();
}

// Columns: _index, type (categorical, unsorted, one category unused, missing values), donor (text),
// depth (int64), score (float64, missing values), is_doublet (bool, missing values), passed (bool).
inline std::shared_ptr<arrow::Table> fixture_obs(std::int64_t begin, std::int64_t end) {
  using std::optional;
  const auto index = build_column<arrow::StringBuilder>(
      begin, end, [](auto i) { return optional("cell-" + std::to_string(i)); });
  const auto codes = build_column<arrow::Int8Builder>(begin, end, [](auto i) {
    return i % 5 == 4 ? optional<std::int8_t>() : optional(static_cast<std::int8_t>(i % 2));
  });
  arrow::StringBuilder names;
  for (const char* name : {"T cell", "B cell", "unused"})
    if (!names.Append(name).ok()) throw std::runtime_error("cannot build categories");
  const auto type = std::make_shared<arrow::DictionaryArray>(
      arrow::dictionary(arrow::int8(), arrow::utf8()), codes, *names.Finish());
  const auto donor = build_column<arrow::StringBuilder>(begin, end, [](auto i) {
    return i % 6 == 5 ? optional<std::string>() : optional("donor" + std::to_string(i % 3));
  });
  const auto depth =
      build_column<arrow::Int64Builder>(begin, end, [](auto i) { return optional(i * 1000); });
  const auto score = build_column<arrow::DoubleBuilder>(begin, end, [](auto i) {
    return i % 4 == 1 ? optional<double>() : optional(static_cast<double>(i) / 8);
  });
  const auto doublet = build_column<arrow::BooleanBuilder>(
      begin, end, [](auto i) { return i % 3 == 2 ? optional<bool>() : optional(i % 2 == 0); });
  const auto passed =
      build_column<arrow::BooleanBuilder>(begin, end, [](auto i) { return optional(i % 3 == 0); });
  const auto schema = arrow::schema(
      {arrow::field("_index", arrow::utf8()), arrow::field("type", type->type()),
       arrow::field("donor", arrow::utf8()), arrow::field("depth", arrow::int64()),
       arrow::field("score", arrow::float64()), arrow::field("is_doublet", arrow::boolean()),
       arrow::field("passed", arrow::boolean())});
  return arrow::Table::Make(schema, {index, type, donor, depth, score, doublet, passed},
                            end - begin);
}

inline std::shared_ptr<arrow::Table> fixture_var(std::int64_t n_genes) {
  const auto names = build_column<arrow::StringBuilder>(
      0, n_genes, [](auto i) { return std::optional("gene" + std::to_string(i)); });
  const auto length = build_column<arrow::Int32Builder>(
      0, n_genes, [](auto i) { return std::optional(static_cast<std::int32_t>(i * 3)); });
  return arrow::Table::Make(arrow::schema({arrow::field("_index", arrow::utf8()),
                                           arrow::field("length", arrow::int32())}),
                            {names, length}, n_genes);
}

inline format::shard::EncodedRows encode_fixture_rows(const ShardFixture& fixture,
                                                      std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> indptr{0};
  std::vector<std::int32_t> indices;
  std::vector<float> values;
  for (std::int64_t cell = begin; cell < end; ++cell) {
    const FixtureRow row = fixture_row(cell, fixture.n_genes);
    indices.insert(indices.end(), row.indices.begin(), row.indices.end());
    for (const float count : row.values) values.push_back(fixture.value_of(count));
    indptr.push_back(static_cast<std::int64_t>(indices.size()));
  }
  return format::shard::encode_rows(
      {.indptr = indptr, .indices = indices.data(), .values = values.data(), .dtype = DType::kF32},
      {.layout = fixture.layout, .n_genes = fixture.n_genes, .value_dtype = fixture.dtype});
}

inline std::vector<std::int64_t> row_numbers(std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(end - begin));
  std::iota(rows.begin(), rows.end(), begin);
  return rows;
}

inline std::shared_ptr<arrow::Schema> fixture_schema() {
  return format::shard::stored_obs_schema(*fixture_obs(0, 0)->schema(), "source.h5ad");
}

inline format::shard::ShardEntry write_fixture_shard(const std::string& dir,
                                                     const ShardFixture& fixture,
                                                     std::int64_t shard) {
  const std::int64_t begin = shard * fixture.shard_size;
  const std::int64_t end = std::min(begin + fixture.shard_size, fixture.n_cells);
  const auto schema = fixture_schema();
  format::shard::ShardSpec spec;
  spec.dir = dir;
  spec.layout = fixture.layout;
  spec.cells = {.shard = shard,
                .n_genes = fixture.n_genes,
                .value_dtype = fixture.dtype,
                .segment_bytes = fixture.segment_bytes};
  spec.first_cell = begin;
  spec.obs_schema = schema;
  format::shard::ShardWriter writer(spec);
  for (std::int64_t at = begin; at < end; at += fixture.rows_per_append) {
    const std::int64_t stop = std::min(end, at + fixture.rows_per_append);
    auto rows = encode_fixture_rows(fixture, at, stop);
    writer.append(rows);
    writer.append_obs(format::shard::conform_obs(fixture_obs(at, stop), schema, "source.h5ad",
                                                 row_numbers(at, stop)));
  }
  return writer.finish();
}

inline format::shard::Manifest fixture_head(const std::string& dir, const ShardFixture& fixture) {
  const auto var = fixture_var(fixture.n_genes);
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < fixture.n_genes; ++i) names.push_back("gene" + std::to_string(i));
  format::shard::Manifest manifest;
  manifest.layout = fixture.layout;
  manifest.n_genes = fixture.n_genes;
  manifest.value_dtype = fixture.dtype;
  manifest.gene_fingerprint = format::shard::gene_fingerprint(names);
  manifest.shard_size = fixture.shard_size;
  manifest.genes = format::shard::write_genes(dir, var, row_numbers(0, fixture.n_genes));
  manifest.sources = {
      {.path = "source.h5ad", .layer = "X", .fingerprint = 7, .n_cells = fixture.n_cells}};
  return manifest;
}

inline std::int64_t fixture_shards(const ShardFixture& fixture) {
  return std::max<std::int64_t>(1, (fixture.n_cells + fixture.shard_size - 1) / fixture.shard_size);
}

// A whole directory, the way a conversion writes it.
inline format::shard::Manifest write_fixture(const std::string& dir, const ShardFixture& fixture) {
  auto journal = format::shard::PartialManifest::start(dir, "plan");
  const auto head = fixture_head(dir, fixture);
  for (std::int64_t shard = 0; shard < fixture_shards(fixture); ++shard)
    journal.add(write_fixture_shard(dir, fixture, shard));
  return journal.commit(head);
}

}  // namespace cellfeed::testing
