// StoreReading: all that a file of cells holds, whatever its format, read and checked, for targets
// that change such files.
#pragma once

#include <arrow/api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/format/entry_store.h"
#include "cellfeed/format/matrix_list.h"
#include "cellfeed/format/row_store.h"

namespace cellfeed::fuzz {

inline void require(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what.c_str());
  std::abort();
}

// What is in a file, errors included, as one text.
class StoreReading {
 public:
  std::string read(const std::string& path, std::int64_t cache_bytes) {
    path_ = path;
    options_.cache_bytes = cache_bytes;
    options_.row_maker = [&](std::unique_ptr<format::EntryStore> store,
                             const format::OpenOptions&) {
      read_entries(*store);
      read_cells(*store);
      return Stores();
    };
    attempt([&] {
      for (const auto& matrix : format::list_matrices(path, "")) layers_.push_back(matrix.name);
    });
    layers_.push_back("X");
    layers_.push_back(format::kNoLayer);
    for (const std::string& layer : layers_) attempt([&] { read_layer(layer); });
    return std::move(text_);
  }

 private:
  using Stores = std::vector<std::unique_ptr<format::RowStore>>;
  // More are not read of a file that says it has them.
  static constexpr std::int64_t kMaxRows = 20;
  static constexpr std::int64_t kMaxPieces = 4;

  template <typename Call>
  void attempt(const Call& call) {
    try {
      call();
    } catch (const Error& error) {
      require(error.kind() != ErrorKind::kInternal && error.kind() != ErrorKind::kIo, error.what());
      text_ += "error " + std::string(error_kind_name(error.kind())) + "\n";
    }
  }

  template <typename T>
  void note(const T* values, std::int64_t n) {
    text_.append(reinterpret_cast<const char*>(values), static_cast<std::size_t>(n) * sizeof(T));
  }

  void read_layer(const std::string& layer) {
    text_ += layer + "\n";
    options_.layer = layer;
    for (const auto& store : format::open_stores(path_, options_)) {
      attempt([&] { read_rows(*store); });
      read_cells(*store);
    }
  }

  void read_rows(const format::RowStore& store) {
    const std::int64_t n_rows = store.info().n_rows;
    std::vector<std::int64_t> rows;
    for (std::int64_t row = 0; row < std::min(kMaxRows, n_rows); ++row)
      rows.push_back(row % 2 == 0 ? row : n_rows - row);
    const auto fetched = format::fetch_rows(store, rows);
    std::vector<std::int64_t> sizes(rows.size()), place{0};
    fetched->sizes(sizes);
    for (const std::int64_t size : sizes) place.push_back(place.back() + size);
    std::vector<std::int32_t> indices(static_cast<std::size_t>(place.back()) + 16),
        counts(rows.size());
    std::vector<double> values(indices.size());
    fetched->decode(0, std::ssize(rows),
                    {.place = place.data(),
                     .indices = indices.data(),
                     .values = values.data(),
                     .dtype = DType::kF64,
                     .counts = counts.data()});
    for (std::size_t i = 0; i < rows.size(); ++i) {
      require(counts[i] >= 0 && counts[i] <= sizes[i], "rows are as long as they are sized");
      const std::int32_t* row = indices.data() + place[i];
      for (std::int32_t k = 0; k < counts[i]; ++k)
        require(row[k] > (k == 0 ? -1 : row[k - 1]) && row[k] < store.info().n_cols,
                "columns ascend inside of the matrix");
      note(row, counts[i]);
      note(values.data() + place[i], counts[i]);
    }
  }

  void read_entries(const format::EntryStore& store) {
    for (std::int64_t piece = 0; piece < std::min(kMaxPieces, store.n_pieces()); ++piece)
      attempt([&] {
        format::Entries entries;
        store.read_piece(piece, format::EntryParts::kAll, entries);
        for (std::int64_t i = 0; i < entries.n; ++i) {
          require(entries.rows.data()[i] < store.info().n_rows, "entries have a row");
          require(entries.columns.data()[i] >= 0 && entries.columns.data()[i] < store.info().n_cols,
                  "entries have a column");
        }
        note(entries.columns.data(), entries.n);
        note(entries.values.data(), std::ssize(entries.values.span()));
      });
  }

  // Genes, obs and var.
  void read_cells(const format::RowStore& store) {
    attempt([&] {
      for (const std::string& name : store.genes().names) text_ += name;
      text_ += store.processing().json;
    });
    attempt([&] { text_ += std::to_string(store.fingerprint()); });
    attempt([&] { note_table(*store.read_var(), std::ssize(store.genes().names)); });
    const std::int64_t n_rows = std::min(kMaxRows, store.info().n_rows);
    attempt([&] { note_table(*store.read_obs(0, n_rows), n_rows); });
    attempt([&] {
      for (const std::string& name : store.obs_names()) attempt([&] { read_column(store, name); });
    });
  }

  void note_table(const arrow::Table& table, std::int64_t n_rows) {
    require(table.num_rows() == n_rows, "tables are as long as was asked for");
    const auto status = table.ValidateFull();
    require(status.ok(), status.ToString());
    text_ += table.ToString();
  }

  void read_column(const format::RowStore& store, const std::string& name) {
    const auto column = store.obs_column(name);
    require(column.length == store.info().n_rows, "a column has a value of each row");
    const auto width = static_cast<std::int64_t>(dtype_bytes(column.dtype));
    note(static_cast<const char*>(column.values), column.length * width);
    matrix::require_intact(column);
    if (!column.is_categorical) return;
    const auto n_categories = std::ssize(matrix::category_texts(column));
    dispatch_dtype(column.dtype, [&](auto zero) {
      const auto* codes = static_cast<const decltype(zero)*>(column.values);
      for (std::int64_t i = 0; i < column.length; ++i)
        require(static_cast<std::int64_t>(codes[i]) >= -1 &&
                    static_cast<std::int64_t>(codes[i]) < n_categories,
                "codes are of categories");
    });
  }

  std::string path_;
  format::OpenOptions options_;
  std::vector<std::string> layers_;
  std::string text_;
};

}  // namespace cellfeed::fuzz
