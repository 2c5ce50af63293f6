#include "cellfeed/format/parquet/list_items.h"

#include <arrow/api.h>

#include "cellfeed/base/error.h"
#include "cellfeed/format/parquet/column_types.h"
#include "cellfeed/format/parquet/whole_numbers.h"

namespace cellfeed::format::parquet_table {
namespace {

template <typename Fn>
auto with_lists(const arrow::Array& column, Fn&& fn) {
  switch (column.type_id()) {
    case arrow::Type::LIST:
      return fn(static_cast<const arrow::ListArray&>(column));
    case arrow::Type::LARGE_LIST:
      return fn(static_cast<const arrow::LargeListArray&>(column));
    case arrow::Type::FIXED_SIZE_LIST:
      return fn(static_cast<const arrow::FixedSizeListArray&>(column));
    default:
      throw Error(ErrorKind::kInternal, "a column of lists is none");
  }
}

template <typename Texts>
void visit_texts(const arrow::Array& array, const std::function<void(std::string_view)>& visit) {
  const auto& texts = static_cast<const Texts&>(array);
  for (std::int64_t i = 0; i < texts.length(); ++i)
    if (texts.IsValid(i)) visit(texts.GetView(i));
}

}  // namespace

Lists::Lists(const arrow::Array& column)
    : column_(column),
      items_(with_lists(column, [](const auto& lists) { return lists.values(); })) {}

bool Lists::is_missing(std::int64_t row) const { return column_.IsNull(row); }

std::int64_t Lists::begin(std::int64_t row) const {
  return with_lists(column_, [row](const auto& lists) {
    return static_cast<std::int64_t>(lists.value_offset(row));
  });
}

std::int64_t Lists::length(std::int64_t row) const {
  return with_lists(column_, [row](const auto& lists) {
    return static_cast<std::int64_t>(lists.value_length(row));
  });
}

void for_each_items(const TableFile& file, int group, int column,
                    const std::function<void(const arrow::Array& items)>& visit) {
  constexpr std::int64_t kRowsAtOnce = 1024;
  const bool holds_names = holds_texts(*item_type(*file.schema().field(column)->type()));
  file.read(
      {.group = group,
       .leaves = file.leaves(column),
       .batch_rows = kRowsAtOnce,
       .keeps_repeated_texts = holds_names},
      [&](const arrow::RecordBatch& rows, std::size_t) { visit(*Lists(*rows.column(0)).items()); });
}

void for_each_id(const arrow::Array& items, const std::function<void(std::int64_t)>& visit) {
  with_whole_numbers(items, [&](const auto& numbers) {
    for (std::int64_t i = 0; i < numbers.length(); ++i)
      if (numbers.IsValid(i)) visit(static_cast<std::int64_t>(numbers.Value(i)));
  });
}

void for_each_text(const arrow::Array& items, const std::function<void(std::string_view)>& visit) {
  switch (items.type_id()) {
    case arrow::Type::DICTIONARY:
      // Of a group; what no row of these has is of others.
      return for_each_text(*static_cast<const arrow::DictionaryArray&>(items).dictionary(), visit);
    case arrow::Type::STRING:
      return visit_texts<arrow::StringArray>(items, visit);
    case arrow::Type::LARGE_STRING:
      return visit_texts<arrow::LargeStringArray>(items, visit);
    case arrow::Type::STRING_VIEW:
      return visit_texts<arrow::StringViewArray>(items, visit);
    default:
      throw Error(ErrorKind::kInternal, "items of lists are no texts");
  }
}

}  // namespace cellfeed::format::parquet_table
