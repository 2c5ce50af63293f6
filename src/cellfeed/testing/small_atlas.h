// SmallAtlas: a made-up data set of known values, written as .h5ad for tests of whole conversions.
#pragma once

#include <arrow/api.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cellfeed/base/dtype.h"
#include "cellfeed/base/error.h"
#include "cellfeed/format/h5ad/h5ad_writer.h"

namespace cellfeed::testing {

struct SmallAtlasOptions {
  std::int64_t n_cells = 100;
  std::int64_t n_genes = 50;
  std::uint64_t seed = 1;
  DType dtype = DType::kF32;
  bool whole_numbers = true;
  std::string gene_prefix = "gene_";
  std::vector<std::string> cell_types = {"B cell", "T cell", "unused", "monocyte"};
};

// Deterministic, independent of the code under test.
inline std::uint64_t next_random(std::uint64_t& state) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

template <typename Builder, typename Values>
std::shared_ptr<arrow::Array> arrow_array(Builder& builder, const Values& values) {
  for (const auto& value : values)
    if (!builder.Append(value).ok()) throw Error(ErrorKind::kInternal, "cannot build a column");
  return *builder.Finish();
}

inline std::shared_ptr<arrow::Array> categorical_array(const std::vector<int>& codes,
                                                       const std::vector<std::string>& categories,
                                                       bool ordered = false) {
  arrow::Int8Builder codes_builder;
  for (const int code : codes) {
    const auto status = code < 0 ? codes_builder.AppendNull()
                                 : codes_builder.Append(static_cast<std::int8_t>(code));
    if (!status.ok()) throw Error(ErrorKind::kInternal, "cannot build a column");
  }
  arrow::StringBuilder names;
  const auto dictionary = arrow_array(names, categories);
  return *arrow::DictionaryArray::FromArrays(
      arrow::dictionary(arrow::int8(), arrow::utf8(), ordered), *codes_builder.Finish(),
      dictionary);
}

class SmallAtlas {
 public:
  explicit SmallAtlas(const SmallAtlasOptions& options = {}) : options_(options) {
    std::uint64_t state = options.seed * 0x9E3779B97F4A7C15u + 1;
    indptr.push_back(0);
    for (std::int64_t cell = 0; cell < options.n_cells; ++cell) {
      const bool is_empty = cell % 17 == 5;
      for (std::int64_t gene = 0; gene < options.n_genes && !is_empty; ++gene) {
        // Frequent genes at the end, so that the mean order differs from the source's.
        if (next_random(state) % static_cast<std::uint64_t>(options.n_genes) >
            static_cast<std::uint64_t>(gene))
          continue;
        indices.push_back(static_cast<std::int32_t>(gene));
        const auto count = 1 + next_random(state) % (next_random(state) % 20 == 0 ? 500 : 4);
        values.push_back(options.whole_numbers ? static_cast<double>(count)
                                               : static_cast<double>(count) + 0.25);
      }
      indptr.push_back(static_cast<std::int64_t>(indices.size()));
    }
  }

  std::int64_t n_cells() const { return options_.n_cells; }
  std::int64_t n_genes() const { return options_.n_genes; }
  std::int64_t nnz() const { return static_cast<std::int64_t>(indices.size()); }

  std::vector<std::string> gene_names() const {
    std::vector<std::string> names;
    for (std::int64_t g = 0; g < options_.n_genes; ++g)
      names.push_back(options_.gene_prefix + std::to_string(g));
    return names;
  }

  std::shared_ptr<arrow::Table> obs() const {
    std::vector<std::string> names, donors;
    std::vector<int> types;
    std::vector<std::int64_t> counts;
    std::vector<double> scores;
    std::vector<bool> flags;
    for (std::int64_t i = 0; i < options_.n_cells; ++i) {
      names.push_back("cell_" + std::to_string(options_.seed) + "_" + std::to_string(i));
      donors.push_back("donor " + std::to_string(i % 3));
      const int n_types = static_cast<int>(options_.cell_types.size());
      const int type = static_cast<int>(i * 7 % (n_types + 1));
      types.push_back(type == n_types || options_.cell_types[type] == "unused" ? -1 : type);
      counts.push_back((std::int64_t{1} << 53) + i);
      scores.push_back(static_cast<double>(i) / 3);
      flags.push_back(i % 2 == 0);
    }
    arrow::StringBuilder name_builder, donor_builder;
    arrow::Int64Builder count_builder;
    arrow::DoubleBuilder score_builder;
    arrow::BooleanBuilder flag_builder;
    arrow::ArrayVector columns = {
        arrow_array(name_builder, names),   categorical_array(types, options_.cell_types),
        arrow_array(donor_builder, donors), arrow_array(count_builder, counts),
        arrow_array(score_builder, scores), arrow_array(flag_builder, flags)};
    const char* labels[] = {"_index", "cell_type", "donor", "n_counts", "score", "flag"};
    arrow::FieldVector fields;
    for (std::size_t c = 0; c < columns.size(); ++c)
      fields.push_back(arrow::field(labels[c], columns[c]->type()));
    return arrow::Table::Make(arrow::schema(fields), columns);
  }

  std::shared_ptr<arrow::Table> var() const {
    std::vector<int> kinds;
    std::vector<std::int64_t> lengths;
    for (std::int64_t g = 0; g < options_.n_genes; ++g) {
      kinds.push_back(g % 5 == 0 ? -1 : 2 - static_cast<int>(g % 2));
      lengths.push_back(1000 - g);
    }
    arrow::StringBuilder name_builder;
    arrow::Int64Builder length_builder;
    arrow::ArrayVector columns = {arrow_array(name_builder, gene_names()),
                                  categorical_array(kinds, {"unused", "protein", "lncRNA"}),
                                  arrow_array(length_builder, lengths)};
    return arrow::Table::Make(arrow::schema({arrow::field("_index", columns[0]->type()),
                                             arrow::field("biotype", columns[1]->type()),
                                             arrow::field("length", columns[2]->type())}),
                              columns);
  }

  std::string write(const std::string& path) const {
    format::h5ad::H5adWriterOptions writer_options;
    writer_options.value_dtype = options_.dtype;
    format::h5ad::H5adWriter writer(path, options_.n_genes, writer_options);
    format::h5ad::CsrSlice slice;
    slice.indptr = indptr;
    slice.indices = indices.data();
    slice.values = values.data();
    slice.dtype = DType::kF64;
    if (options_.n_cells > 0) {
      writer.append(slice);
      writer.append_obs(*obs());
    }
    writer.finish(var().get());
    return path;
  }

  std::vector<std::int64_t> indptr;
  std::vector<std::int32_t> indices;
  std::vector<double> values;

 private:
  SmallAtlasOptions options_;
};

}  // namespace cellfeed::testing
