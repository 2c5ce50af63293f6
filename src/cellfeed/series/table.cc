#include "cellfeed/series/table.h"

#include <algorithm>

#include "cellfeed/base/ascii_case.h"
#include "cellfeed/base/error.h"
#include "cellfeed/base/nearest_name.h"
#include "cellfeed/format/column_values.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/io/sequential_reader.h"
#include "cellfeed/io/stand_in.h"

namespace cellfeed::series {

int Table::column_of(const std::string& name, std::string_view what) const {
  std::vector<std::string> names;
  if (name.empty() && std::ranges::count(columns_, name, &TableColumn::name) > 1)
    throw_error(ErrorKind::kCorruptData, path_, "{} names a column '', and several have no name",
                what);
  for (const TableColumn& column : columns_) {
    if (column.name == name) return static_cast<int>(names.size());
    names.push_back(column.name);
  }
  throw_error(ErrorKind::kNoSuchKey, path_, "has no column '{}', which {} names{}", name, what,
              suggestion(name, names));
}

void Table::require_unchanged() const { io::require_unchanged(*source_); }

void Table::rows(std::span<const int> columns, double* out, std::int64_t stride) const {
  for (const int column : columns) numbers(column, out++, stride);
}

void Table::add_column(TableColumn column) {
  if (!format::is_utf8(column.name))
    throw_error(ErrorKind::kCorruptData, path_,
                "the name of column {} is not UTF-8: write the file again in that encoding",
                columns_.size() + 1);
  if (!column.name.empty() && !names_.insert(column.name).second)
    throw_error(ErrorKind::kCorruptData, path_, "two columns have the name '{}'", column.name);
  columns_.push_back(std::move(column));
}

void Table::throw_value(std::int64_t row, int column, std::string_view what) const {
  throw_error(ErrorKind::kCorruptData, path_, "{}, column '{}': {}", place(row),
              columns_[static_cast<std::size_t>(column)].name, what);
}

namespace {

enum class Kind { kParquet, kIpc, kText, kGzip };

Kind kind_of(const std::string& path) {
  const auto source = io::open_file(path, {.access = io::FileAccess::kPread, .threads = 1});
  if (source->size() == 0)
    throw Error(ErrorKind::kCorruptData, "is an empty file: it holds no table", path);
  std::string begin(static_cast<std::size_t>(std::min(source->size(), io::kStandInBytes)), '\0');
  source->read(0, std::as_writable_bytes(std::span(begin)));
  constexpr std::int64_t kLeastBytes = 12;  // of those two
  if (source->size() >= kLeastBytes) {
    if (begin.starts_with("PAR1")) return Kind::kParquet;
    if (begin.starts_with("ARROW1")) return Kind::kIpc;
  }
  if (begin.starts_with("PAR1"))
    throw Error(ErrorKind::kCorruptData,
                "is no table of text but the start of a Parquet file: copy or download it again",
                path);
  if (begin.starts_with("PK\x03\x04"))
    throw Error(ErrorKind::kCorruptData, "is no table of text but a zip archive: unpack it", path);
  if (begin.starts_with("\x89HDF"))
    throw Error(ErrorKind::kCorruptData, "is no table of text but an HDF5 file", path);
  const bool is_gzip = io::is_gzip(*source);
  if (!is_gzip) io::refuse_stand_in(begin, path);
  for (const char* suffix : {".parquet", ".feather", ".arrow", ".ipc"})
    if (lower(path).ends_with(suffix))
      throw_error(ErrorKind::kCorruptData, path,
                  "does not begin as a {} file does: it is damaged, "
                  "or not what its name says",
                  suffix);
  return is_gzip ? Kind::kGzip : Kind::kText;
}

}  // namespace

std::unique_ptr<Table> open_table(const std::string& path, std::int64_t budget,
                                  const TextNumbers& numbers, TableShare share) {
  const Kind kind = kind_of(path);
  if (kind == Kind::kParquet) return open_parquet_table(path, budget, share);
  if (kind == Kind::kIpc) return open_ipc_table(path, budget);
  return open_csv_table(path, numbers, share);
}

std::int64_t table_shares(const std::string& path, std::int64_t budget, std::int64_t wanted) {
  const Kind kind = kind_of(path);
  std::int64_t n = kind == Kind::kText ? wanted : 1;
  if (kind == Kind::kParquet) open_parquet_table(path, budget, {}, &n);
  return std::clamp<std::int64_t>(n, 1, wanted);
}

}  // namespace cellfeed::series
