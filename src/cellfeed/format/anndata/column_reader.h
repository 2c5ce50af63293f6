// Reads columns of an AnnData dataframe to Arrow: today's encodings and those of every version
// since 0.5. Thread-safe. Lifetime: the tree outlives it.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <string>

#include "cellfeed/format/stored_tree.h"

namespace cellfeed::format::anndata {

// Key of the field metadata that marks a column stored with a mask, so that it can be written back
// as one, and the value of texts whose missing ones pandas shows as NaN.
inline constexpr char kNullableKey[] = "nullable";
inline constexpr char kMissingIsNan[] = "NaN";

// One stored column or the dictionary of one, named by its path in the file ("obs/cell_type").
class ColumnReader {
 public:
  ColumnReader(const StoredTree& file, std::string name);
  // A column of a table of records, and its categories where it has some.
  ColumnReader(const StoredTree& file, std::shared_ptr<const ColumnSource> column,
               const StoredNode* categories);

  std::int64_t length() const { return length_; }
  // What the metadata marks it by; "" for a column without a mask.
  const std::string& nullable_mark() const { return nullable_mark_; }
  // Rows [begin, end). Throws kUnsupported or kCorruptData naming the column.
  std::shared_ptr<arrow::Array> read(std::int64_t begin, std::int64_t end) const;

 private:
  enum class Kind { kPlain, kCategorical, kNullable };
  void open_array(const StoredNode& array);
  void open_group(const StoredNode& group);
  std::shared_ptr<const ColumnSource> member(const std::string& name) const;
  std::shared_ptr<arrow::Array> read_categorical(std::int64_t begin, std::int64_t end) const;
  std::shared_ptr<arrow::Array> read_nullable(std::int64_t begin, std::int64_t end) const;

  const StoredTree& file_;
  std::string name_;
  Kind kind_ = Kind::kPlain;
  std::int64_t length_ = 0;
  // The plain values, the codes, or the values under a mask.
  std::shared_ptr<const ColumnSource> values_;
  std::shared_ptr<const ColumnSource> mask_;  // kNullable
  std::string nullable_mark_;
  bool ordered_ = false;
  std::shared_ptr<arrow::Array> categories_;
};

}  // namespace cellfeed::format::anndata
