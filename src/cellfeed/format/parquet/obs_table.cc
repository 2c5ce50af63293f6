#include "cellfeed/format/parquet/obs_table.h"

#include <arrow/api.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/base/nearest_name.h"
#include "cellfeed/format/column_values.h"
#include "cellfeed/format/parquet/column_types.h"
#include "cellfeed/matrix/cast_array.h"

namespace cellfeed::format::parquet_table {
namespace {

constexpr const char* kIndex = "_index";

template <typename T>
T value_of(arrow::Result<T> result) {
  check_arrow(result.status());
  return *std::move(result);
}

// The array as a column is given on, but for categories, which are those of some rows still.
std::shared_ptr<arrow::Array> as_obs(const std::shared_ptr<arrow::Array>& array,
                                     const arrow::DataType& type, const std::string& path,
                                     const std::string& name) {
  const auto refuse = [&](const std::string& why) {
    throw_error(ErrorKind::kCorruptData, path, "column '{}' cannot be read: {}", name, why);
  };
  if (type.id() != arrow::Type::DICTIONARY)
    return matrix::cast_array(array, type.GetSharedPtr(), refuse);
  const auto& codes = static_cast<const arrow::DictionaryArray&>(*array);
  const auto values = matrix::cast_array(
      codes.dictionary(), static_cast<const arrow::DictionaryType&>(type).value_type(), refuse);
  const auto indices = matrix::cast_array(codes.indices(), arrow::int32(), refuse);
  return std::make_shared<arrow::DictionaryArray>(type.GetSharedPtr(), indices, values);
}

std::shared_ptr<arrow::Array> as_names(const arrow::Array& array) {
  arrow::StringBuilder builder;
  for (std::int64_t i = 0; i < array.length(); ++i) {
    auto scalar = value_of(array.GetScalar(i));
    if (scalar->is_valid && scalar->type->id() == arrow::Type::DICTIONARY)
      scalar = value_of(static_cast<const arrow::DictionaryScalar&>(*scalar).GetEncodedValue());
    check_arrow(scalar->is_valid ? builder.Append(scalar->ToString()) : builder.AppendNull());
  }
  return value_of(builder.Finish());
}

}  // namespace

ObsTable::ObsTable(const TableFile& file, const TableColumns& columns)
    : file_(file), columns_(columns), all_(columns.obs) {
  if (columns.index >= 0) all_.push_back(columns.index);
  std::ranges::sort(all_);
}

std::vector<std::string> ObsTable::names() const {
  std::vector<std::string> names;
  for (const int c : columns_.obs) names.push_back(file_.schema().field(c)->name());
  return names;
}

std::shared_ptr<arrow::DataType> ObsTable::type_of(int column) const {
  return obs_type(*file_.schema().field(column)->type());
}

std::shared_ptr<const ObsTable::Group> ObsTable::read_group(int number,
                                                            const std::vector<int>& columns,
                                                            std::int64_t n_rows) const {
  std::vector<int> leaves;
  for (const int c : columns) leaves.push_back(file_.leaves(c)[0]);
  std::vector<arrow::ArrayVector> parts(columns.size());
  file_.read({.group = number, .leaves = leaves, .most_rows = n_rows},
             [&](const arrow::RecordBatch& rows, std::size_t) {
               for (std::size_t i = 0; i < columns.size(); ++i)
                 parts[i].push_back(as_obs(rows.column(static_cast<int>(i)), *type_of(columns[i]),
                                           file_.path(), file_.schema().field(columns[i])->name()));
             });
  auto group = std::make_shared<Group>();
  group->number = number;
  for (std::size_t i = 0; i < columns.size(); ++i)
    group->columns.push_back(
        std::make_shared<arrow::ChunkedArray>(std::move(parts[i]), type_of(columns[i])));
  return group;
}

std::shared_ptr<const ObsTable::Group> ObsTable::group_of_all(int number, std::int64_t begin,
                                                              std::int64_t end) const {
  // Whoever looks at so few does not come back for the next.
  constexpr std::int64_t kFewRows = 64;
  const bool is_few = end - begin < kFewRows;
  {
    const std::lock_guard lock(mutex_);
    if (last_ && last_->number == number) {
      auto known = last_;
      if (end == file_.rows_of(number)) last_ = nullptr;
      return known;
    }
  }
  auto group = read_group(number, all_, is_few ? end : file_.rows_of(number));
  if (is_few || end == file_.rows_of(number)) return group;
  const std::lock_guard lock(mutex_);
  return last_ = std::move(group);
}

void ObsTable::release() const {
  const std::lock_guard lock(mutex_);
  last_ = nullptr;
}

std::shared_ptr<arrow::Array> ObsTable::categories_of(int column) const {
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = categories_.find(column); known != categories_.end())
      return known->second;
  }
  const auto type = std::static_pointer_cast<arrow::DictionaryType>(type_of(column));
  const auto all = value_of(arrow::DictionaryUnifier::Make(type->value_type()));
  for (int g = 0; g < file_.n_groups(); ++g) {
    const auto group = read_group(g, {column}, file_.rows_of(g));
    for (const auto& part : group->columns[0]->chunks())
      check_arrow(all->Unify(*static_cast<const arrow::DictionaryArray&>(*part).dictionary()));
  }
  std::shared_ptr<arrow::Array> categories;
  check_arrow(all->GetResultWithIndexType(arrow::int32(), &categories));
  const std::lock_guard lock(mutex_);
  return categories_.try_emplace(column, std::move(categories)).first->second;
}

std::shared_ptr<arrow::Array> ObsTable::conform(int column, const arrow::Array& part) const {
  const auto& codes = static_cast<const arrow::DictionaryArray&>(part);
  const auto categories = categories_of(column);
  const auto type = std::static_pointer_cast<arrow::DictionaryType>(type_of(column));
  const auto unifier = value_of(arrow::DictionaryUnifier::Make(type->value_type()));
  check_arrow(unifier->Unify(*categories));
  std::shared_ptr<arrow::Buffer> places;
  check_arrow(unifier->Unify(*codes.dictionary(), &places));
  return value_of(
      codes.Transpose(type, categories, reinterpret_cast<const std::int32_t*>(places->data())));
}

std::vector<std::shared_ptr<arrow::Array>> ObsTable::rows_of(
    std::int64_t begin, std::int64_t end, const std::vector<int>& columns) const {
  std::vector<arrow::ArrayVector> parts(columns.size());
  for (std::int64_t row = begin; row < end;) {
    const int g = file_.group_of(row);
    const std::int64_t first = file_.first_rows()[g];
    const std::int64_t stop = std::min(end, file_.first_rows()[g + 1]);
    const auto group = columns == all_ ? group_of_all(g, row - first, stop - first)
                                       : read_group(g, columns, stop - first);
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const auto rows = group->columns[i]->Slice(row - first, stop - row);
      for (const auto& part : rows->chunks())
        parts[i].push_back(part->type_id() == arrow::Type::DICTIONARY ? conform(columns[i], *part)
                                                                      : part);
    }
    row = stop;
  }
  std::vector<std::shared_ptr<arrow::Array>> arrays;
  for (std::size_t i = 0; i < columns.size(); ++i)
    arrays.push_back(parts[i].size() == 1 ? parts[i][0]
                     : parts[i].empty()   ? value_of(arrow::MakeEmptyArray(type_of(columns[i])))
                                          : value_of(arrow::Concatenate(parts[i])));
  return arrays;
}

std::shared_ptr<arrow::Array> ObsTable::numbers_as_names(std::int64_t begin,
                                                         std::int64_t end) const {
  arrow::StringBuilder builder;
  for (std::int64_t row = begin; row < end; ++row)
    check_arrow(
        builder.Append(fmt::format("{}", columns_.first_number + columns_.number_step * row)));
  return value_of(builder.Finish());
}

void ObsTable::throw_no_column(const std::string& name) const {
  for (const int c : columns_.wide)
    if (file_.schema().field(c)->name() == name)
      throw_error(ErrorKind::kInvalidArgument, file_.path(),
                  "'{}' is read as a gene, as are all numeric columns of a table of a column for "
                  "each gene: to have it as one of obs, name it in obs where the file is opened",
                  name);
  if (file_.schema().GetFieldIndex(name) >= 0)
    throw_error(ErrorKind::kUnsupported, file_.path(),
                "column '{}' cannot be one of obs: it holds {}", name,
                file_.schema().field(file_.schema().GetFieldIndex(name))->type()->ToString());
  throw_error(ErrorKind::kNoSuchKey, file_.path(), "no obs column '{}'{}", name,
              suggestion(name, names()));
}

matrix::FixedColumn ObsTable::column(const std::string& name) const {
  if (name == kIndex) {
    const auto names = columns_.index < 0
                           ? numbers_as_names(0, file_.n_rows())
                           : as_names(*rows_of(0, file_.n_rows(), {columns_.index})[0]);
    return matrix::make_fixed_column(name, arrow::ChunkedArray(names));
  }
  for (const int c : columns_.obs)
    if (file_.schema().field(c)->name() == name)
      return matrix::make_fixed_column(name,
                                       arrow::ChunkedArray(rows_of(0, file_.n_rows(), {c})[0]));
  throw_no_column(name);
}

std::shared_ptr<arrow::Table> ObsTable::read(std::int64_t begin, std::int64_t end) const {
  if (begin < 0 || begin > end || end > file_.n_rows())
    throw_error(ErrorKind::kOutOfRange, file_.path(), "obs rows out of range: [{}, {}), rows {}",
                begin, end, file_.n_rows());
  const auto arrays = rows_of(begin, end, all_);
  arrow::FieldVector fields{arrow::field(kIndex, arrow::utf8())};
  arrow::ArrayVector given{nullptr};
  for (std::size_t i = 0; i < all_.size(); ++i) {
    if (all_[i] == columns_.index) {
      given[0] = as_names(*arrays[i]);
      continue;
    }
    fields.push_back(arrow::field(file_.schema().field(all_[i])->name(), arrays[i]->type()));
    given.push_back(arrays[i]);
  }
  if (!given[0]) given[0] = numbers_as_names(begin, end);
  return arrow::Table::Make(arrow::schema(std::move(fields)), given, end - begin);
}

}  // namespace cellfeed::format::parquet_table
