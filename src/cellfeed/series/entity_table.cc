// entities.arrow: names, rows and times of entities.
#include <arrow/api.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>

#include <algorithm>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/arrow_file.h"
#include "cellfeed/format/shard/checksum.h"
#include "cellfeed/series/metadata.h"

namespace cellfeed::series {
namespace {

// Columns before those of static values.
constexpr int kFirstStatic = 7;

using format::shard::arrow_value;
using format::shard::check_arrow;

void require_disjoint(const EntityTable& table, std::int64_t n_rows, const std::string& path) {
  std::vector<Extent> extents = table.all_extents;
  if (!std::ranges::is_sorted(extents, {}, &Extent::begin))
    std::ranges::sort(extents, {}, &Extent::begin);
  std::int64_t before = 0;
  for (const Extent& extent : extents) {
    if (extent.begin < before || extent.end <= extent.begin || extent.end > n_rows)
      throw_error(ErrorKind::kCorruptData, path,
                  "rows {} to {} of an entity overlap others, or lie outside the {} rows",
                  extent.begin, extent.end, n_rows);
    if (extent.begin > before)
      throw_error(ErrorKind::kCorruptData, path, "rows {} to {} are of no entity", before,
                  extent.begin);
    before = extent.end;
  }
  if (before != n_rows)
    throw_error(ErrorKind::kCorruptData, path, "its entities have {} rows where there are {}",
                before, n_rows);
}

void require_gaps(const EntityTable& table, const std::string& path) {
  for (std::int64_t e = 0; e < table.size(); ++e) {
    std::int64_t before = 0;
    if (table.steps[static_cast<std::size_t>(e)] < 0)
      throw_error(ErrorKind::kCorruptData, path, "the step of entity {} is negative", e);
    for (const std::int64_t row : table.gaps(e)) {
      if (row <= before || row >= table.n_rows(e))
        throw_error(ErrorKind::kCorruptData, path, "a gap lies outside the rows of entity {}", e);
      before = row;
    }
  }
}

// The lists of one column, one after another; ends: of each list.
std::vector<std::int64_t> list_values(const arrow::Array& column, std::vector<std::int64_t>& ends,
                                      const std::string& path) {
  if (column.type_id() != arrow::Type::LIST ||
      static_cast<const arrow::ListArray&>(column).value_type()->id() != arrow::Type::INT64)
    throw Error(ErrorKind::kCorruptData, "a column is of another type", path);
  const auto& lists = static_cast<const arrow::ListArray&>(column);
  const auto& values = static_cast<const arrow::Int64Array&>(*lists.values());
  if (lists.null_count() > 0 || values.null_count() > 0 ||
      (lists.length() > 0 && lists.value_offset(0) != 0))
    throw Error(ErrorKind::kCorruptData, "its rows are not whole lists", path);
  ends.clear();
  for (std::int64_t i = 0; i < lists.length(); ++i) ends.push_back(lists.value_offset(i + 1));
  const std::int64_t n = ends.empty() ? 0 : ends.back();
  return {values.raw_values(), values.raw_values() + n};
}

std::shared_ptr<arrow::Array> static_array(const EntityTable& entities, std::size_t column,
                                           const std::string& path) {
  const auto fill = [&]<typename T>(auto&& builder, const T*) {
    for (std::int64_t e = 0; e < entities.size(); ++e) {
      const auto* value = std::get_if<T>(&entities.statics.value(e, column));
      check_arrow(value == nullptr ? builder.AppendNull() : builder.Append(*value), path,
                  ErrorKind::kUnsupported);
    }
    return arrow_value(builder.Finish(), path, ErrorKind::kInternal);
  };
  if (entities.statics.is_text(column, entities.names))
    return fill(arrow::StringBuilder(), static_cast<const std::string*>(nullptr));
  return fill(arrow::DoubleBuilder(), static_cast<const double*>(nullptr));
}

void read_statics(const arrow::RecordBatch& batch, const SeriesMetadata& metadata,
                  StaticTable& statics, const std::string& path) {
  statics = StaticTable(metadata.columns.static_columns);
  statics.resize(batch.num_rows());
  for (std::size_t c = 0; c < statics.n_cols(); ++c) {
    const int at = kFirstStatic + static_cast<int>(c);
    const arrow::Array& column = *batch.column(at);
    const bool is_text = column.type_id() == arrow::Type::STRING;
    if (batch.column_name(at) != statics.names()[c] ||
        (!is_text && column.type_id() != arrow::Type::DOUBLE))
      throw_error(ErrorKind::kCorruptData, path, "does not hold the static column '{}'",
                  statics.names()[c]);
    for (std::int64_t e = 0; e < column.length(); ++e) {
      if (column.IsNull(e)) continue;
      if (is_text)
        statics.see(e, c, static_cast<const arrow::StringArray&>(column).GetView(e));
      else
        statics.see(e, c, static_cast<const arrow::DoubleArray&>(column).Value(e));
    }
  }
}

}  // namespace

void EntityTable::add(std::string name, const EntityTimes& times, std::span<const Extent> extents) {
  names.push_back(std::move(name));
  first_times.push_back(times.first);
  last_times.push_back(times.last);
  steps.push_back(times.step);
  all_gaps.insert(all_gaps.end(), times.gaps.begin(), times.gaps.end());
  gap_ends.push_back(std::ssize(all_gaps));
  all_extents.insert(all_extents.end(), extents.begin(), extents.end());
  extent_ends.push_back(std::ssize(all_extents));
}

EntityTimes EntityTable::times(std::int64_t entity) const {
  const auto e = static_cast<std::size_t>(entity);
  const auto its_gaps = gaps(entity);
  return {first_times[e], last_times[e], steps[e], {its_gaps.begin(), its_gaps.end()}};
}

SeriesFile write_entities(const io::Directory& directory, const EntityTable& entities,
                          std::int64_t n_appends) {
  const std::string name = name_after_appends(kEntitiesName, n_appends);
  const std::string path = directory.path_of(name);
  const auto finished = [&](arrow::ArrayBuilder& builder) {
    return arrow_value(builder.Finish(), path, ErrorKind::kInternal);
  };
  const auto check = [&](const arrow::Status& status) {
    check_arrow(status, path, ErrorKind::kUnsupported);
  };
  arrow::MemoryPool* pool = arrow::default_memory_pool();
  arrow::StringBuilder names;
  arrow::Int64Builder first, last, steps;
  const auto begin = std::make_shared<arrow::Int64Builder>();
  const auto end = std::make_shared<arrow::Int64Builder>();
  const auto gap = std::make_shared<arrow::Int64Builder>();
  const auto lists = arrow::list(arrow::field("item", arrow::int64(), false));
  arrow::ListBuilder begins(pool, begin, lists), ends(pool, end, lists), gaps(pool, gap, lists);
  check(names.AppendValues(entities.names));
  check(first.AppendValues(entities.first_times));
  check(last.AppendValues(entities.last_times));
  check(steps.AppendValues(entities.steps));
  for (std::int64_t e = 0; e < entities.size(); ++e) {
    check(begins.Append());
    check(ends.Append());
    for (const Extent& extent : entities.extents(e)) {
      check(begin->Append(extent.begin));
      check(end->Append(extent.end));
    }
    check(gaps.Append());
    for (const std::int64_t row : entities.gaps(e)) check(gap->Append(row));
  }
  arrow::FieldVector fields{
      arrow::field("name", arrow::utf8()),       arrow::field("begins", begins.type()),
      arrow::field("ends", ends.type()),         arrow::field("first_time", arrow::int64()),
      arrow::field("last_time", arrow::int64()), arrow::field("step", arrow::int64()),
      arrow::field("gaps", gaps.type())};
  arrow::ArrayVector columns{finished(names), finished(begins), finished(ends), finished(first),
                             finished(last),  finished(steps),  finished(gaps)};
  for (std::size_t c = 0; c < entities.statics.n_cols(); ++c) {
    columns.push_back(static_array(entities, c, path));
    fields.push_back(arrow::field(entities.statics.names()[c], columns.back()->type()));
  }
  const auto schema = arrow::schema(fields);
  const auto batch = arrow::RecordBatch::Make(schema, entities.size(), columns);
  format::shard::ChecksummedSink sink({directory, name});
  const auto writer = arrow_value(arrow::ipc::MakeFileWriter(&sink, schema), path, ErrorKind::kIo);
  sink.check(writer->WriteRecordBatch(*batch));
  sink.check(writer->Close());
  const auto entry = sink.commit();
  return {entry.name, entry.bytes, entry.checksum};
}

EntityTable read_entities(const std::string& dir, const SeriesMetadata& metadata) {
  const SeriesFile& entry = metadata.file(kEntitiesName);
  const std::string path = io::Directory(dir).path_of(entry.name);
  const auto buffer = std::make_shared<format::shard::MappedFile>(path);
  if (format::shard::checksum_bytes(std::as_bytes(
          std::span(buffer->data(), static_cast<std::size_t>(buffer->size())))) != entry.checksum)
    throw Error(ErrorKind::kCorruptData, "is damaged: its checksum is another", path);
  const auto bad = ErrorKind::kCorruptData;
  const auto reader = arrow_value(
      arrow::ipc::RecordBatchFileReader::Open(std::make_shared<arrow::io::BufferReader>(buffer)),
      path, bad);
  const auto batch = arrow_value(reader->ReadRecordBatch(0), path, bad);
  check_arrow(batch->ValidateFull(), path, bad);
  const auto n_cols = kFirstStatic + static_cast<int>(metadata.columns.static_columns.size());
  if (batch->num_columns() != n_cols || batch->num_rows() != metadata.n_entities ||
      batch->column(0)->type_id() != arrow::Type::STRING)
    throw Error(bad, "does not hold the entities that the metadata say", path);
  EntityTable table;
  const auto& names = static_cast<const arrow::StringArray&>(*batch->column(0));
  const auto numbers = [&](int column) {
    if (batch->column(column)->type_id() != arrow::Type::INT64)
      throw Error(bad, "a column is of another type", path);
    const auto& array = static_cast<const arrow::Int64Array&>(*batch->column(column));
    return std::vector<std::int64_t>(array.raw_values(), array.raw_values() + array.length());
  };
  table.names.reserve(static_cast<std::size_t>(names.length()));
  for (std::int64_t i = 0; i < names.length(); ++i) table.names.push_back(names.GetString(i));
  const std::vector<std::int64_t> begins = list_values(*batch->column(1), table.extent_ends, path);
  std::vector<std::int64_t> end_lists;
  const std::vector<std::int64_t> ends = list_values(*batch->column(2), end_lists, path);
  if (end_lists != table.extent_ends) throw Error(bad, "its begins and ends differ", path);
  for (std::size_t i = 0; i < ends.size(); ++i) table.all_extents.push_back({begins[i], ends[i]});
  table.first_times = numbers(3);
  table.last_times = numbers(4);
  table.steps = numbers(5);
  table.all_gaps = list_values(*batch->column(6), table.gap_ends, path);
  read_statics(*batch, metadata, table.statics, path);
  require_disjoint(table, metadata.n_rows, path);
  require_gaps(table, path);
  buffer->require_intact();
  return table;
}

}  // namespace cellfeed::series
