// Reads columns of an AnnData dataframe to Arrow: today's encodings and those of every version
// since 0.5. Thread-safe.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cellfeed/format/column_values.h"
#include "cellfeed/hdf5/file.h"

namespace cellfeed::format::h5ad {

// Key of the field metadata that marks a column stored with a mask, so that it can be written back
// as one.
inline constexpr char kNullableKey[] = "nullable";

// One stored column or the dictionary of one, named by its path in the file ("obs/cell_type").
class ColumnReader {
 public:
  // categories_group: where anndata 0.7 keeps the categories of plain datasets
  // ("obs/__categories").
  ColumnReader(const hdf5::File& file, std::string name, const std::string& categories_group);
  // A column of a compound table, and its categories where it has some.
  ColumnReader(const hdf5::File& file, StoredColumn column,
               const std::optional<hdf5::Dataset>& categories);

  std::int64_t length() const { return length_; }
  bool is_nullable() const { return kind_ == Kind::kNullable; }
  // Rows [begin, end). Throws kUnsupported or kCorruptData naming the column.
  std::shared_ptr<arrow::Array> read(std::int64_t begin, std::int64_t end) const;

 private:
  enum class Kind { kPlain, kCategorical, kNullable };
  void open_dataset(const hdf5::Dataset& dataset, const std::string& categories_group);
  void open_group(const hdf5::Group& group);
  StoredColumn member(const hdf5::Group& group, const std::string& name) const;
  std::shared_ptr<arrow::Array> read_categorical(std::int64_t begin, std::int64_t end) const;
  std::shared_ptr<arrow::Array> read_nullable(std::int64_t begin, std::int64_t end) const;

  hdf5::File file_;
  std::string name_;
  Kind kind_ = Kind::kPlain;
  std::int64_t length_ = 0;
  std::optional<StoredColumn> values_;  // the plain values, the codes, or the values under a mask
  std::optional<StoredColumn> mask_;    // kNullable
  bool ordered_ = false;
  std::shared_ptr<arrow::Array> categories_;
};

}  // namespace cellfeed::format::h5ad
