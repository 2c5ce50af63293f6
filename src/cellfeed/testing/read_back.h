// What tests compare: the rows, obs and genes of any readable path, in plain vectors.
#pragma once

#include <arrow/api.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "cellfeed/convert/inputs/row_reader.h"
#include "cellfeed/convert/inputs/sources.h"
#include "cellfeed/testing/input_cells.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::testing {

using Row = std::map<std::string, double>;  // gene -> value

struct ReadBack {
  std::vector<Row> rows;
  std::vector<std::string> genes;
  std::string dtype;
  std::shared_ptr<arrow::Table> obs;
  std::shared_ptr<arrow::Table> var;
};

inline ReadBack read_back(const std::string& path) {
  const convert::Sources sources(cells_of({path}), {});
  ReadBack result;
  result.genes = sources.genes().names;
  result.dtype = dtype_name(sources.value_dtype());
  result.var = sources.read_var();
  std::vector<std::shared_ptr<arrow::Table>> obs;
  for (std::int64_t s = 0; s < sources.n_sources(); ++s) {
    const auto& store = sources.store(s);
    convert::CsrPiece piece;
    convert::read_rows(store, 0, store.info().n_rows, piece);
    for (std::int64_t row = 0; row < piece.n_rows(); ++row) {
      result.rows.emplace_back();
      for (std::int64_t i = piece.indptr[row]; i < piece.indptr[row + 1]; ++i)
        dispatch_dtype(piece.dtype, [&](auto zero) {
          result.rows.back()[result.genes[piece.indices[i]]] =
              static_cast<double>(reinterpret_cast<const decltype(zero)*>(piece.values.data())[i]);
        });
    }
    obs.push_back(sources.read_obs({s, 0, store.info().n_rows}));
  }
  result.obs = *arrow::ConcatenateTables(obs);
  return result;
}

// One column as text, "null" where missing.
inline std::vector<std::string> column_texts(const arrow::Table& table, const std::string& name) {
  const auto column = table.GetColumnByName(name);
  std::vector<std::string> texts;
  if (!column) return texts;
  for (std::int64_t i = 0; i < column->length(); ++i) {
    auto scalar = *column->GetScalar(i);
    if (scalar->is_valid && scalar->type->id() == arrow::Type::DICTIONARY)
      scalar = *static_cast<const arrow::DictionaryScalar&>(*scalar).GetEncodedValue();
    texts.push_back(scalar->is_valid ? scalar->ToString() : "null");
  }
  return texts;
}

// Names and bytes of all files, but for the lock.
inline std::map<std::string, std::vector<std::byte>> directory_bytes(const std::string& dir) {
  std::map<std::string, std::vector<std::byte>> files;
  for (const auto& entry : std::filesystem::directory_iterator(dir))
    if (const std::string name = entry.path().filename(); name.front() != '.')
      files[name] = TempDir::read_all(entry.path());
  return files;
}

}  // namespace cellfeed::testing
