// Columns of a text as Arrow arrays of the types that pandas.read_csv finds in it. Pure functions.
#pragma once

#include <arrow/type_fwd.h>

#include <memory>
#include <string_view>

namespace cellfeed::format::tenx {

enum class TextType { kInteger, kReal, kBoolean, kText };

// What all texts of a column can be read as.
class SeenTexts {
 public:
  void see(std::string_view text);
  // Integers with missing ones, and a column of nothing but these, are reals. A whole number that
  // neither int64 nor double holds is a text.
  TextType type() const;

 private:
  bool is_integer_ = true, is_real_ = true, is_boolean_ = true;
  bool has_values_ = false, has_missing_ = false;
};

std::shared_ptr<arrow::DataType> arrow_type(TextType type);
// Appends a text to a builder of arrow_type(type): where it is missing, NaN to reals and null to
// others. False where it is no value of this type.
bool append_text(TextType type, std::string_view text, arrow::ArrayBuilder& builder);

}  // namespace cellfeed::format::tenx
