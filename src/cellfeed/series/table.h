// Table: rows of a file of columns (CSV, Parquet, Arrow IPC), from front to back, so many at a
// time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "cellfeed/base/csv_text.h"
#include "cellfeed/io/byte_source.h"
#include "cellfeed/series/timestamp.h"

namespace cellfeed::series {

struct TableColumn {
  std::string name;
  // Numbers by the file's types; in texts, as the first rows look.
  bool is_numeric = false;
  bool is_flag = false;     // true or false by the file's types
  bool is_text = false;     // texts or bytes by the file's types
  bool has_digits = false;  // numbers, some of which may be whole: texts() has their digits
  // Where the first text that is no number is, if most of them are numbers.
  std::string doubt{};
};

// Not thread-safe. Everything that a file can do wrong throws kCorruptData, or kUnsupported for a
// type that is none of ours, naming path, row and column.
class Table {
 public:
  virtual ~Table() = default;
  const std::string& path() const { return path_; }
  const std::vector<TableColumn>& columns() const { return columns_; }
  // Throws kNoSuchKey naming the file and the nearest name.
  int column_of(const std::string& name, std::string_view what) const;

  // To be called once, before next(): which columns will be asked for.
  virtual void choose(std::span<const int> columns) = 0;
  // Moves on to the next rows, at most `max_rows`; how many there are, 0 at the end.
  virtual std::int64_t next(std::int64_t max_rows) = 0;
  // Throws kCorruptData where the file that is open was written to since.
  void require_unchanged() const;
  // "line 17" or "row 16" of the current rows.
  virtual std::string place(std::int64_t row) const = 0;

  // ---- Of the current rows; column is one of those chosen.

  // out[i * stride]; NaN for a missing value. Infinite values throw.
  virtual void numbers(int column, double* out, std::int64_t stride) const = 0;
  // numbers() of each column, the c-th from out + c on.
  virtual void rows(std::span<const int> columns, double* out, std::int64_t stride) const;
  // The same as float32, `n_bytes` from row to row, where that is quick and changes no number and
  // none is wrong; else false, and `out` half done.
  virtual bool narrow_rows(std::span<const int>, std::byte*, std::size_t) const { return false; }
  // As numbers; texts that say true or false are 1 and 0.
  virtual void flags(int column, double* out, std::int64_t stride) const {
    numbers(column, out, stride);
  }
  // kNoTime for a missing one; empty where all are missing. unit: nanoseconds of a whole number,
  // empty where none was named.
  virtual std::optional<TimeKind> times(int column, std::optional<std::int64_t> unit,
                                        std::span<std::int64_t> out) const = 0;
  // Whole numbers; kNoTime for a missing one.
  virtual void integers(int column, std::span<std::int64_t> out) const = 0;
  // An empty view with null data for a missing one. Lifetime: the next call of next() or texts().
  virtual void texts(int column, std::vector<std::string_view>& out) = 0;

 protected:
  Table(std::string path, std::shared_ptr<const io::ByteSource> source)
      : path_(std::move(path)), source_(std::move(source)) {}
  // Throws kCorruptData where the name is one of those before, or no text.
  void add_column(TableColumn column);
  [[noreturn]] void throw_value(std::int64_t row, int column, std::string_view what) const;

  const std::string path_;
  const std::shared_ptr<const io::ByteSource> source_;
  std::vector<TableColumn> columns_;

 private:
  std::unordered_set<std::string> names_;  // of the columns
};

// One of n shares of a file's rows: the k-th, from 0. All shares in their order are the file.
struct TableShare {
  std::int64_t k = 0, n = 1;
};

// By the bytes, else by the name: Parquet and Arrow files have a magic number, all else is CSV (or
// tab-separated where the name ends in .tsv, .tsv.gz), gzip or not. budget: bytes that decoding
// may take. numbers: of text.
std::unique_ptr<Table> open_table(const std::string& path, std::int64_t budget,
                                  const TextNumbers& numbers, TableShare share = {});
// In how many shares the file can be read, at most `wanted`: row groups, or lines; 1 where it
// is compressed as a whole, and of Arrow IPC, which takes no decoding.
std::int64_t table_shares(const std::string& path, std::int64_t budget, std::int64_t wanted);
std::unique_ptr<Table> open_csv_table(const std::string& path, const TextNumbers& numbers,
                                      TableShare share);
// n_groups: becomes the number of row groups.
std::unique_ptr<Table> open_parquet_table(const std::string& path, std::int64_t budget,
                                          TableShare share, std::int64_t* n_groups = nullptr);
std::unique_ptr<Table> open_ipc_table(const std::string& path, std::int64_t budget);

}  // namespace cellfeed::series
