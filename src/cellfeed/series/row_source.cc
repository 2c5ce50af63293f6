#include "cellfeed/series/row_source.h"

#include <arrow/util/uri.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <regex>

#include "cellfeed/base/ascii_case.h"
#include "cellfeed/base/csv_text.h"
#include "cellfeed/base/error.h"
#include "cellfeed/format/column_values.h"
#include "cellfeed/series/feature_columns.h"
#include "cellfeed/series/record_kernels.h"

namespace cellfeed::series {
namespace {

constexpr std::array<std::string_view, 4> kMissingNames{"error", "drop", "ffill", "nan"};
constexpr std::uint32_t kNoEntity = 0xFFFFFFFF;
// In the name of a folder: a missing value.
constexpr std::string_view kHiveMissing = "__HIVE_DEFAULT_PARTITION__";

}  // namespace

std::string_view missing_name(Missing missing) {
  return kMissingNames[static_cast<std::size_t>(missing)];
}

Missing missing_from_name(std::string_view name) {
  const auto at = std::ranges::find(kMissingNames, name);
  if (at == kMissingNames.end())
    throw_invalid("missing must be error, drop, ffill or nan, not '{}'", name);
  return static_cast<Missing>(at - kMissingNames.begin());
}

void RowBlock::clear() {
  records.clear();
  entities.clear();
}

std::optional<std::string> hive_value(const std::string& path, const std::string& key) {
  for (const auto& part : std::filesystem::path(path).parent_path()) {
    const std::string folder = part.string();
    const std::size_t end = folder.find('=');
    if (end != std::string::npos && arrow::util::UriUnescape(folder.substr(0, end)) == key)
      return arrow::util::UriUnescape(folder.substr(end + 1));
  }
  return std::nullopt;
}

std::string entity_of_path(const std::string& path, const RowColumns& columns) {
  const std::string name = std::filesystem::path(path).filename().string();
  if (!columns.entity_pattern.empty()) {
    std::smatch match;
    try {
      if (!std::regex_search(path, match, std::regex(columns.entity_pattern)))
        throw_error(ErrorKind::kInvalidArgument, path, "the pattern '{}' does not match it",
                    columns.entity_pattern);
    } catch (const std::regex_error& error) {
      throw_invalid("not a regular expression (ECMAScript): '{}': {}", columns.entity_pattern,
                    error.what());
    }
    return match.size() > 1 ? match[1].str() : match[0].str();
  }
  if (!columns.entity.empty()) return hive_value(path, columns.entity).value_or("");
  std::string stem = name;
  for (const char* suffix :
       {".gz", ".csv", ".tsv", ".txt", ".parquet", ".feather", ".arrow", ".ipc"})
    if (lower(stem).ends_with(suffix) && stem.size() > std::string_view(suffix).size())
      stem.resize(stem.size() - std::string_view(suffix).size());
  return stem;
}

RowSource::RowSource(const std::string& path, const RowColumns& columns, bool was_auto,
                     std::int64_t budget, TableShare share)
    : columns_(columns),
      table_(open_table(path, budget, columns.numbers, share)),
      statics_(columns.static_columns),
      wide_(columns.n_values()) {
  if (!columns.time_unit.empty()) unit_ = nanoseconds_of_unit(columns.time_unit);
  find_columns(was_auto);
}

void RowSource::find_columns(bool was_auto) {
  if (was_auto)
    for (const std::string& name : numeric_columns(*table_, columns_))
      if (std::ranges::find(columns_.features, name) == columns_.features.end())
        throw_error(ErrorKind::kInvalidArgument, table_->path(),
                    "has the numeric column '{}', which the first file lacks; name the features",
                    name);
  for (const std::string& name : columns_.features)
    feature_columns_.push_back(column_of(name, "features"));
  for (const std::string& name : columns_.time) time_columns_.push_back(column_of(name, "time"));
  for (const std::string& name : columns_.static_columns)
    static_columns_.push_back(column_of(name, "static"));
  std::vector<int> chosen = feature_columns_;
  chosen.insert(chosen.end(), static_columns_.begin(), static_columns_.end());
  if (columns_.reads_mask()) {
    mask_column_ = column_of(columns_.fit_mask, "fit_mask");
    chosen.push_back(mask_column_);
  }
  chosen.insert(chosen.end(), time_columns_.begin(), time_columns_.end());
  find_entity();
  if (entity_column_ >= 0) chosen.push_back(entity_column_);
  std::ranges::sort(chosen);
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  table_->choose(chosen);
}

bool RowSource::has_column(const std::string& name) const {
  return std::ranges::find(table_->columns(), name, &TableColumn::name) != table_->columns().end();
}

int RowSource::column_of(const std::string& name, std::string_view what) const {
  if (!has_column(name) && hive_value(table_->path(), name))
    throw_error(ErrorKind::kUnsupported, table_->path(),
                "'{}', which {} names, is the key of a folder, and no column of the file: of "
                "folders entities alone are read; write it as a column",
                name, what);
  return table_->column_of(name, what);
}

void RowSource::find_entity() {
  if (!columns_.entity.empty()) hive_entity_ = hive_value(table_->path(), columns_.entity);
  if (!columns_.entity.empty() && (has_column(columns_.entity) || !hive_entity_))
    entity_column_ = table_->column_of(columns_.entity, "entity");
}

bool RowSource::next(std::int64_t max_rows, RowBlock& block) {
  const std::int64_t n = table_->next(max_rows);
  if (n == 0) return false;
  times_.assign(static_cast<std::size_t>(n), 0);
  read_values(n, block.records);
  read_times(n);
  read_entities(n);
  keep_complete_rows(n, block);
  if (!static_columns_.empty()) read_statics(n);
  n_read_ += n;
  return true;
}

void RowSource::read_wide_values(std::int64_t n, double* records) {
  const auto width = static_cast<std::int64_t>(columns_.n_values() + 1);
  table_->rows(feature_columns_, records + 1, width);
  if (mask_column_ >= 0) read_mask(n, records + width - 1, width);
}

// Narrow as long as all of the block can be.
void RowSource::read_values(std::int64_t n, Records& records) {
  const auto n_rows = static_cast<std::size_t>(n);
  const std::size_t n_values = columns_.n_values();
  if (!records.is_narrow())
    return read_wide_values(n, reinterpret_cast<double*>(records.extend(n_rows)));
  std::byte* const out = records.extend(n_rows) + sizeof(double);
  if (mask_column_ < 0 && table_->narrow_rows(feature_columns_, out, records.row_bytes())) return;
  wide_.clear();
  wide_.widen();
  auto* const wide = reinterpret_cast<double*>(wide_.extend(n_rows));
  read_wide_values(n, wide);
  if (narrow_rows(wide_.rows().values(n), n_values, out, records.row_bytes())) return;
  records.truncate(records.n_rows() - n_rows);
  records.widen();
  std::memcpy(records.extend(n_rows), wide, n_rows * records.row_bytes());
}

void RowSource::read_times(std::int64_t n) {
  std::optional<TimeKind> kind = TimeKind::kRow;
  if (time_columns_.size() == 1) {
    kind = table_->times(time_columns_[0], unit_, times_);
  } else if (time_columns_.size() > 1) {
    kind = TimeKind::kNaive;
    read_split_times(n);
  } else {
    for (std::int64_t i = 0; i < n; ++i) times_[static_cast<std::size_t>(i)] = n_read_ + i;
  }
  if (!kind) return;
  if (kind_ && *kind_ != *kind)
    throw_error(ErrorKind::kCorruptData, table_->path(),
                "{}: its times are {} where those before it are {}", table_->place(0),
                time_kind_name(*kind), time_kind_name(*kind_));
  kind_ = kind;
}

void RowSource::read_split_times(std::int64_t n) {
  std::vector<std::vector<std::int64_t>> parts;
  for (const int column : time_columns_) {
    parts.emplace_back(static_cast<std::size_t>(n));
    table_->integers(column, parts.back());
  }
  std::array<std::int64_t, 6> fields{};
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
    bool is_whole = true;
    for (std::size_t p = 0; p < parts.size(); ++p) {
      fields[p] = parts[p][i];
      is_whole &= fields[p] != kNoTime;
    }
    const auto time = time_of_fields(std::span(fields).first(parts.size()));
    if (is_whole && !time)
      throw_error(ErrorKind::kCorruptData, table_->path(), "{}: there is no such time: {}",
                  table_->place(static_cast<std::int64_t>(i)),
                  fmt::join(std::span(fields).first(parts.size()), " "));
    times_[i] = is_whole ? *time : kNoTime;
  }
}

void RowSource::read_entities(std::int64_t n) {
  const bool is_missing = hive_entity_ == kHiveMissing;
  if (entity_column_ >= 0) {
    table_->texts(entity_column_, names_);
    if (hive_entity_) require_as_in_path(n, is_missing);
    return;
  }
  if (is_missing) return names_.assign(static_cast<std::size_t>(n), {});
  if (entities_.empty()) {
    const std::string name = entity_of_path(table_->path(), columns_);
    if (name.empty())
      throw Error(ErrorKind::kInvalidArgument, "the name of its entity would be empty",
                  table_->path());
    entity_number(name);
  }
  names_.assign(static_cast<std::size_t>(n), entities_[0]);
}

void RowSource::require_as_in_path(std::int64_t n, bool is_missing) const {
  for (std::int64_t i = 0; i < n; ++i) {
    const std::string_view name = names_[static_cast<std::size_t>(i)];
    if (is_missing ? name.data() == nullptr : name.data() != nullptr && name == *hive_entity_)
      continue;
    throw_error(ErrorKind::kCorruptData, table_->path(),
                "{}, column '{}': is '{}' where the name of the folder says '{}'; leave the column "
                "out, or name the folder otherwise",
                table_->place(i), columns_.entity, name.substr(0, 80), *hive_entity_);
  }
}

std::uint32_t RowSource::entity_number(std::string_view name) {
  if (name.data() == nullptr) return kNoEntity;
  if (last_entity_ < entities_.size() && entities_[last_entity_] == name) return last_entity_;
  const auto [at, is_new] =
      numbers_.try_emplace(std::string(name), static_cast<std::uint32_t>(entities_.size()));
  if (is_new) {
    if (!format::is_utf8(name))
      throw_error(ErrorKind::kCorruptData, table_->path(),
                  "the name of an entity is not UTF-8: entity {}", entities_.size());
    entities_.emplace_back(name);
  }
  last_entity_ = at->second;
  return last_entity_;
}

void RowSource::read_mask(std::int64_t n, double* out, std::int64_t stride) {
  table_->flags(mask_column_, out, stride);
  for (std::int64_t i = 0; i < n; ++i)
    if (const double flag = out[i * stride]; flag != 0 && flag != 1)
      throw_error(ErrorKind::kCorruptData, table_->path(),
                  "{}, column '{}': a mask is true or false (1 or 0) in each row, and this is {}",
                  table_->place(i), columns_.fit_mask,
                  std::isnan(flag) ? "missing" : fmt::format("{}", flag));
}

void RowSource::read_statics(std::int64_t n) {
  statics_.resize(std::ssize(entities_));
  for (std::size_t c = 0; c < static_columns_.size(); ++c) {
    const TableColumn& column = table_->columns()[static_cast<std::size_t>(static_columns_[c])];
    const bool is_text = !column.is_numeric && !column.is_flag;
    static_numbers_.resize(static_cast<std::size_t>(n));
    if (is_text)
      table_->texts(static_columns_[c], names_);
    else
      read_static_numbers(c, n);
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
      const std::uint32_t entity = row_entities_[i];
      if (entity == kNoEntity) continue;
      if (is_text && !format::is_utf8(names_[i]))
        throw_error(ErrorKind::kCorruptData, table_->path(), "{}, column '{}': is not UTF-8",
                    table_->place(static_cast<std::int64_t>(i)), column.name);
      if (!(is_text ? statics_.see(entity, c, names_[i])
                    : statics_.see(entity, c, static_numbers_[i])))
        throw_not_static(
            table_->path(), table_->place(static_cast<std::int64_t>(i)) + ": ", entities_[entity],
            column.name, statics_.value(entity, c),
            is_text ? StaticValue(std::string(names_[i])) : StaticValue(static_numbers_[i]));
    }
  }
}

// Not as features are, of which all become floats: these are often ids.
void RowSource::read_static_numbers(std::size_t c, std::int64_t n) {
  table_->numbers(static_columns_[c], static_numbers_.data(), 1);
  const auto may_be_rounded = [](double number) { return std::abs(number) >= 0x1p53; };
  const TableColumn& column = table_->columns()[static_cast<std::size_t>(static_columns_[c])];
  if (!column.has_digits || std::ranges::none_of(static_numbers_, may_be_rounded)) return;
  table_->texts(static_columns_[c], names_);
  for (std::int64_t i = 0; i < n; ++i) {
    const double number = static_numbers_[static_cast<std::size_t>(i)];
    std::string digits(names_[static_cast<std::size_t>(i)]);
    if (!columns_.numbers.thousands.empty()) std::erase(digits, columns_.numbers.thousands[0]);
    if (may_be_rounded(number) && is_rounded(number, digits))
      throw_error(ErrorKind::kPrecision, table_->path(),
                  "{}, column '{}': {} is no float64 exactly, which static numbers are; write the "
                  "column as texts",
                  table_->place(i), column.name, digits);
  }
}

void RowSource::throw_missing(std::int64_t row, const std::string& column, bool is_feature) const {
  throw_error(ErrorKind::kCorruptData, table_->path(), "{}, column '{}': the value is missing; {}",
              table_->place(row), column,
              is_feature ? "choose what becomes of such rows with missing (drop, ffill, nan)"
                         : "no row goes without: leave out such rows with missing=\"drop\"");
}

void RowSource::keep_complete_rows(std::int64_t n, RowBlock& block) {
  row_entities_.assign(static_cast<std::size_t>(n), kNoEntity);
  Records& records = block.records;
  const std::size_t first = records.n_rows() - static_cast<std::size_t>(n);
  const RecordRows rows = records.rows().from(static_cast<std::int64_t>(first));
  const bool is_refused =
      columns_.missing == Missing::kError && has_missing(rows.values(n), columns_.n_values());
  std::size_t n_kept = first;
  std::uint32_t entity = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto row = static_cast<std::size_t>(i);
    const bool is_known = i > 0 && names_[row].data() == names_[row - 1].data() &&
                          names_[row].size() == names_[row - 1].size();
    if (!is_known) entity = entity_number(names_[row]);
    if (times_[row] == kNoTime || entity == kNoEntity) {
      if (columns_.missing != Missing::kDrop)
        throw_missing(i, entity == kNoEntity ? columns_.entity : columns_.time[0], false);
      ++n_dropped_;
      continue;
    }
    for (std::size_t f = 0; f < columns_.n_values() && is_refused; ++f)
      if (std::isnan(rows.value(i, f))) throw_missing(i, columns_.features[f], true);
    std::byte* const kept = records.row(n_kept++);
    if (n_kept != first + row + 1) std::memcpy(kept, records.row(first + row), records.row_bytes());
    std::memcpy(kept, &times_[row], sizeof times_[row]);
    block.entities.push_back(entity);
    row_entities_[row] = entity;
  }
  records.truncate(n_kept);
}

}  // namespace cellfeed::series
