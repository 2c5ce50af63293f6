// Reads columns of an AnnData dataframe to Arrow: today's encodings and the categoricals of anndata
// 0.7. Thread-safe.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cellfeed/hdf5/file.h"

namespace cellfeed::format::h5ad {

// Key of the field metadata that marks a column stored with a mask, so that it can be written back
// as one.
inline constexpr char kNullableKey[] = "nullable";

// One stored column or the dictionary of one, named by its path in the file ("obs/cell_type").
class ColumnReader {
 public:
  // legacy_categories: where anndata 0.7 kept the categories of a plain dataset
  // ("obs/__categories/cell_type").
  ColumnReader(const hdf5::File& file, std::string name, std::string legacy_categories);

  std::int64_t length() const { return length_; }
  bool is_nullable() const { return kind_ == Kind::kNullable; }
  // Rows [begin, end). Throws kUnsupported or kCorruptData naming the column.
  std::shared_ptr<arrow::Array> read(std::int64_t begin, std::int64_t end) const;

 private:
  enum class Kind { kPlain, kCategorical, kNullable };
  void open_dataset(const hdf5::Dataset& dataset, const std::string& legacy_categories);
  void open_group(const hdf5::Group& group);
  hdf5::Dataset member(const hdf5::Group& group, const std::string& name) const;
  std::shared_ptr<arrow::Array> read_categorical(std::int64_t begin, std::int64_t end) const;
  std::shared_ptr<arrow::Array> read_nullable(std::int64_t begin, std::int64_t end) const;

  hdf5::File file_;
  std::string name_;
  Kind kind_ = Kind::kPlain;
  std::int64_t length_ = 0;
  std::optional<hdf5::Dataset> values_;  // the plain values, the codes, or the values under a mask
  std::optional<hdf5::Dataset> mask_;    // kNullable
  bool ordered_ = false;
  std::shared_ptr<arrow::Array> categories_;
};

}  // namespace cellfeed::format::h5ad
