// RowSource: the rows of one input file as times, features and entities, whatever the file is.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cellfeed/series/records.h"
#include "cellfeed/series/statics.h"
#include "cellfeed/series/table.h"

namespace cellfeed::series {

enum class Missing { kError, kDrop, kFfill, kNan };
std::string_view missing_name(Missing missing);    // "error", "drop", "ffill", "nan"
Missing missing_from_name(std::string_view name);  // throws kInvalidArgument

// Which columns of a table are what.
struct RowColumns {
  std::vector<std::string> features;  // empty: all numeric ones that are nothing else
  std::vector<std::string> time;      // none, one, or year, month, day, hour, minute, second
  std::string time_unit;              // of whole numbers; "": none
  std::string entity;                 // a column; "": the name of the file
  std::string entity_pattern;         // a regular expression for the path; "": the name of the file
  std::vector<std::string> static_columns;  // of each entity one value
  // Flags: rows that a scaler looks at. A record has them after the features, as 1 and 0.
  std::string fit_mask;
  TextNumbers numbers;
  bool skips_mask = false;  // the mask is no feature, and is not read
  Missing missing = Missing::kError;

  bool reads_mask() const { return !fit_mask.empty() && !skips_mask; }
  std::size_t n_values() const { return features.size() + (reads_mask() ? 1 : 0); }
};

// Rows in the order of the file.
struct RowBlock {
  explicit RowBlock(std::size_t n_values) : records(n_values) {}
  Records records;
  std::vector<std::uint32_t> entities;  // of each row
  std::int64_t n_rows() const { return static_cast<std::int64_t>(entities.size()); }
  void clear();
};

// What a path says of its rows: the first group of the pattern (or all it matches), else the value
// of a folder named "key=value" (%XX decoded), else the file's name without what follows its first
// suffix. Throws kInvalidArgument where the pattern does not match.
std::string entity_of_path(const std::string& path, const RowColumns& columns);
// The value of a folder of the path named "<key>=<value>", its %XX decoded.
std::optional<std::string> hive_value(const std::string& path, const std::string& key);

// Not thread-safe.
class RowSource {
 public:
  // was_auto: the features are those that the first file has, and this one may not have more.
  RowSource(const std::string& path, const RowColumns& columns, bool was_auto, std::int64_t budget,
            TableShare share = {});

  // Appends the next rows, at most max_rows; false at the end.
  bool next(std::int64_t max_rows, RowBlock& block);
  // By their number in blocks, in the order of their first row.
  const std::vector<std::string>& entities() const { return entities_; }
  // Of the entities, by their number, as far as rows were read.
  const StaticTable& statics() const { return statics_; }
  const std::string& path() const { return table_->path(); }
  // As of the table.
  void require_unchanged() const { table_->require_unchanged(); }
  // Empty where no row has a time.
  std::optional<TimeKind> time_kind() const { return kind_; }
  std::int64_t n_dropped() const { return n_dropped_; }  // without time, entity or a value
  std::int64_t n_read() const { return n_read_; }

 private:
  void find_columns(bool was_auto);
  bool has_column(const std::string& name) const;
  // Of the table; throws kUnsupported where folders of the path alone have it.
  int column_of(const std::string& name, std::string_view what) const;
  void find_entity();
  void read_values(std::int64_t n, Records& records);
  // Records as numbers.
  void read_wide_values(std::int64_t n, double* records);
  void read_times(std::int64_t n);
  void read_split_times(std::int64_t n);
  void read_entities(std::int64_t n);
  void require_as_in_path(std::int64_t n, bool is_missing) const;
  std::uint32_t entity_number(std::string_view name);
  void read_mask(std::int64_t n, double* out, std::int64_t stride);
  // Of the rows that keep_complete_rows kept.
  void read_statics(std::int64_t n);
  void read_static_numbers(std::size_t c, std::int64_t n);
  // Of the n rows at the end of the block.
  void keep_complete_rows(std::int64_t n, RowBlock& block);
  [[noreturn]] void throw_missing(std::int64_t row, const std::string& column,
                                  bool is_feature) const;

  RowColumns columns_;
  std::unique_ptr<Table> table_;
  std::vector<int> feature_columns_, time_columns_, static_columns_;
  int entity_column_ = -1, mask_column_ = -1;
  std::optional<std::string> hive_entity_;  // what a folder of the path says
  std::optional<std::int64_t> unit_;
  std::optional<TimeKind> kind_;
  std::vector<std::string> entities_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::uint32_t last_entity_ = 0;  // that was asked for
  StaticTable statics_;
  std::int64_t n_dropped_ = 0, n_read_ = 0;
  // Of the rows being read.
  std::vector<std::int64_t> times_, field_;
  std::vector<std::string_view> names_;
  std::vector<std::uint32_t> row_entities_;
  std::vector<double> static_numbers_;
  Records wide_;
};

}  // namespace cellfeed::series
