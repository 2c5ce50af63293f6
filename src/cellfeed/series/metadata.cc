#include "cellfeed/series/metadata.h"

#include <arrow/api.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cellfeed/base/checked_size.h"
#include "cellfeed/base/error.h"
#include "cellfeed/base/json_depth.h"
#include "cellfeed/format/shard/arrow_file.h"
#include "cellfeed/format/shard/checksum.h"
#include "cellfeed/io/atomic_file.h"
#include "cellfeed/io/local_file.h"
#include "cellfeed/io/small_file.h"
#include "cellfeed/series/placed_file.h"

namespace cellfeed::series {
namespace {

using format::shard::arrow_value;
using format::shard::check_arrow;
using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr std::string_view kEntitiesKey = ",\n  \"entities\": [";
constexpr std::size_t kChecksumLine = 36;  // {\n  "checksum": "0123456789abcdef",\n
constexpr std::int64_t kMaxMetadataBytes = std::int64_t{8} << 30;

std::string hex(std::uint64_t value) { return fmt::format("{:016x}", value); }

std::uint64_t parse_hex(const std::string& text, const std::string& path) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size() || text.size() != 16)
    throw_error(ErrorKind::kCorruptData, path, "not a checksum: '{}'", text);
  return value;
}

std::uint64_t text_checksum(std::string_view text) {
  return format::shard::checksum_bytes(std::as_bytes(std::span(text)));
}

Json header_json(const SeriesMetadata& m) {
  const bool has_clock = is_timestamp(m.time_kind);
  Json json = {{"format", "cellfeed-series"},
               {"version", kVersion},
               {"features", m.features},
               {"target", m.target},
               {"dtype", dtype_name(m.dtype)},
               {"n_rows", m.n_rows},
               {"n_entities", m.n_entities},
               {"time",
                {{"kind", time_kind_name(m.time_kind)},
                 {"unit", has_clock ? Json("ns") : Json()},
                 {"zone", m.time_kind == TimeKind::kZoned ? Json("UTC") : Json()}}},
               {"scaler", scaler_kind_name(m.scaler)},
               {"scale", scale_of_name(m.scale)},
               {"fit_until", m.fit_until ? Json(*m.fit_until) : Json()},
               {"missing", m.missing},
               {"duplicates", m.duplicates},
               {"sort", m.sort},
               {"window", m.window > 0 ? Json(m.window) : Json()},
               {"horizon", m.horizon},
               {"stride", m.stride},
               {"n_files", m.n_files},
               {"n_rows_read", m.n_rows_read},
               {"n_dropped", m.n_dropped},
               {"n_merged", m.n_merged},
               {"plan", hex(m.plan)},
               {"segment_bytes", kSegmentBytes}};
  json["files"] = Json::array();
  for (const SeriesFile& file : m.files)
    json["files"].push_back(
        {{"name", file.name}, {"bytes", file.bytes}, {"checksum", hex(file.checksum)}});
  return json;
}

std::string entities_text(const EntityTable& entities, TimeKind kind) {
  std::string text;
  for (std::int64_t e = 0; e < entities.size(); ++e) {
    const auto i = static_cast<std::size_t>(e);
    const Json json = {{"name", entities.names[i]},
                       {"start", entities.begin_of(e)},
                       {"end", entities.ends[i]},
                       {"first_time", time_text(entities.first_times[i], kind)},
                       {"last_time", time_text(entities.last_times[i], kind)}};
    text += (e == 0 ? "\n    " : ",\n    ") + json.dump();
  }
  return text;
}

std::int64_t count_of(const Json& json, const char* name, std::int64_t low = 0) {
  const Json& value = json.at(name);
  constexpr std::int64_t kMost = std::int64_t{1} << 50;
  if (!value.is_number_integer() || value < low || value > kMost)
    throw Error(ErrorKind::kCorruptData, fmt::format("'{}' is no count", name));
  return value;
}

SeriesMetadata parse_header(const Json& json, const std::string& path) {
  if (json.at("format") != "cellfeed-series")
    throw Error(ErrorKind::kCorruptData, "is not the metadata of a series", path);
  if (json.at("version") != kVersion)
    throw_error(ErrorKind::kUnsupported, path, "is of version {}, and this cellfeed reads {}",
                json.at("version").dump(), kVersion);
  SeriesMetadata m;
  m.features = json.at("features").get<std::vector<std::string>>();
  m.target = json.at("target").get<std::vector<std::string>>();
  m.dtype = dtype_from_name(json.at("dtype").get<std::string>());
  if (m.features.empty() || !is_float(m.dtype))
    throw Error(ErrorKind::kCorruptData, "names no features, or a dtype that is no float", path);
  for (const std::string& name : m.target)
    if (std::ranges::find(m.features, name) == m.features.end())
      throw_error(ErrorKind::kCorruptData, path, "the target '{}' is no feature", name);
  m.n_rows = count_of(json, "n_rows");
  m.n_entities = count_of(json, "n_entities");
  m.time_kind = time_kind_from_name(json.at("time").at("kind").get<std::string>());
  m.scaler = scaler_kind_from_name(json.at("scaler").get<std::string>());
  m.scale = scale_of_from_name(json.at("scale").get<std::string>());
  if (!json.at("fit_until").is_null()) m.fit_until = json.at("fit_until");
  m.missing = json.at("missing");
  m.duplicates = json.at("duplicates");
  m.sort = json.at("sort");
  if (!json.at("window").is_null()) m.window = count_of(json, "window", 1);
  m.horizon = count_of(json, "horizon", 1);
  m.stride = count_of(json, "stride", 1);
  m.n_files = count_of(json, "n_files");
  m.n_rows_read = count_of(json, "n_rows_read");
  m.n_dropped = count_of(json, "n_dropped");
  m.n_merged = count_of(json, "n_merged");
  m.plan = parse_hex(json.at("plan").get<std::string>(), path);
  if (json.at("segment_bytes") != kSegmentBytes)
    throw Error(ErrorKind::kUnsupported, "has segments of another size", path);
  for (const Json& file : json.at("files"))
    m.files.push_back({file.at("name"), count_of(file, "bytes"),
                       parse_hex(file.at("checksum").get<std::string>(), path)});
  return m;
}

// A file that the metadata do not know, or of another size, is not theirs.
void check_files(const std::string& dir, const SeriesMetadata& m, const std::string& path) {
  const CheckedSize values = CheckedSize(m.n_rows) * static_cast<std::int64_t>(m.features.size()) *
                             static_cast<std::int64_t>(dtype_bytes(m.dtype));
  const CheckedSize times = CheckedSize(m.n_rows) * 8;
  int n_found = 0;
  const io::Directory directory(dir);
  for (const SeriesFile& file : m.files) {
    if ((file.name == kFeaturesName && !(values == file.bytes)) ||
        (file.name == kTimesName && !(times == file.bytes)))
      throw_error(ErrorKind::kCorruptData, path, "{} rows do not take the {} bytes of {}", m.n_rows,
                  file.bytes, file.name);
    for (const char* name : {kFeaturesName, kTimesName, kEntitiesName, kChecksumsName, kScalerName})
      n_found += file.name == name ? 1 : 0;
    const auto bytes = directory.file_bytes(file.name);
    if (!bytes)
      throw_error(ErrorKind::kNotFound, dir, "{} is missing; restore it, or build again",
                  file.name);
    if (*bytes != file.bytes)
      throw_error(ErrorKind::kCorruptData, directory.path_of(file.name),
                  "has {} bytes where the metadata say {}: it was cut off or replaced", *bytes,
                  file.bytes);
  }
  if (n_found != 5 || m.files.size() != 5)
    throw Error(ErrorKind::kCorruptData, "does not list the five files of a series", path);
}

}  // namespace

SeriesFile write_checked_file(const io::Directory& directory, const std::string& name,
                              std::string_view bytes) {
  io::AtomicFile file({directory, name}, io::OnExisting::kReplace);
  file.append(std::as_bytes(std::span(bytes)));
  file.commit();
  return {name, static_cast<std::int64_t>(bytes.size()), text_checksum(bytes)};
}

SeriesFile write_entities(const io::Directory& directory, const EntityTable& entities) {
  const std::string path = directory.path_of(kEntitiesName);
  const auto finished = [&](arrow::ArrayBuilder& builder) {
    return arrow_value(builder.Finish(), path, ErrorKind::kInternal);
  };
  arrow::StringBuilder names;
  arrow::Int64Builder ends, first, last;
  check_arrow(names.AppendValues(entities.names), path, ErrorKind::kUnsupported);
  check_arrow(ends.AppendValues(entities.ends), path, ErrorKind::kInternal);
  check_arrow(first.AppendValues(entities.first_times), path, ErrorKind::kInternal);
  check_arrow(last.AppendValues(entities.last_times), path, ErrorKind::kInternal);
  const auto schema = arrow::schema(
      {arrow::field("name", arrow::utf8()), arrow::field("end", arrow::int64()),
       arrow::field("first_time", arrow::int64()), arrow::field("last_time", arrow::int64())});
  const auto batch = arrow::RecordBatch::Make(
      schema, entities.size(), {finished(names), finished(ends), finished(first), finished(last)});
  format::shard::ChecksummedSink sink({directory, kEntitiesName});
  const auto writer = arrow_value(arrow::ipc::MakeFileWriter(&sink, schema), path, ErrorKind::kIo);
  sink.check(writer->WriteRecordBatch(*batch));
  sink.check(writer->Close());
  const auto entry = sink.commit();
  return {entry.name, entry.bytes, entry.checksum};
}

void write_metadata(const io::Directory& directory, const SeriesMetadata& metadata,
                    const EntityTable& entities) {
  std::string header = header_json(metadata).dump(2);
  header.resize(header.size() - 2);  // "\n}"
  const std::string rest = header.substr(2) + std::string(kEntitiesKey) +
                           entities_text(entities, metadata.time_kind) + "\n  ]\n}\n";
  const std::string text = fmt::format("{{\n  \"checksum\": \"{}\",\n", hex(text_checksum(rest)));
  directory.require_in_place();
  write_checked_file(directory, kMetadataName, text + rest);
}

SeriesMetadata read_metadata(const std::string& dir) {
  const std::string path = (std::filesystem::path(dir) / kMetadataName).string();
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    throw Error(ErrorKind::kNotFound,
                "is no series directory, or its build did not finish: it has no metadata.json",
                dir);
  const std::string text = io::read_small_file(path, kMaxMetadataBytes);
  const std::string_view rest = std::string_view(text).substr(std::min(kChecksumLine, text.size()));
  const std::size_t entities = rest.find(kEntitiesKey);
  const std::string first_line =
      fmt::format("{{\n  \"checksum\": \"{}\",\n", hex(text_checksum(rest)));
  if (!text.starts_with(first_line) || entities == std::string_view::npos)
    throw Error(ErrorKind::kCorruptData,
                "is damaged or was edited: its checksum is another; restore it, or build again",
                path);
  require_shallow_json(rest, path);
  try {
    const SeriesMetadata metadata =
        parse_header(Json::parse("{\n" + std::string(rest.substr(0, entities)) + "}"), path);
    check_files(dir, metadata, path);
    return metadata;
  } catch (const nlohmann::json::exception& failure) {
    throw_error(ErrorKind::kCorruptData, path, "is not the metadata of a series: {}",
                failure.what());
  }
}

EntityTable read_entities(const std::string& dir, const SeriesMetadata& metadata) {
  const std::string path = (std::filesystem::path(dir) / kEntitiesName).string();
  const auto buffer = std::make_shared<format::shard::MappedFile>(path);
  const auto entry =
      std::ranges::find(metadata.files, std::string(kEntitiesName), &SeriesFile::name);
  if (format::shard::checksum_bytes(std::as_bytes(
          std::span(buffer->data(), static_cast<std::size_t>(buffer->size())))) != entry->checksum)
    throw Error(ErrorKind::kCorruptData, "is damaged: its checksum is another", path);
  const auto bad = ErrorKind::kCorruptData;
  const auto reader = arrow_value(
      arrow::ipc::RecordBatchFileReader::Open(std::make_shared<arrow::io::BufferReader>(buffer)),
      path, bad);
  const auto batch = arrow_value(reader->ReadRecordBatch(0), path, bad);
  check_arrow(batch->ValidateFull(), path, bad);
  if (batch->num_columns() != 4 || batch->num_rows() != metadata.n_entities ||
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
  table.ends = numbers(1);
  table.first_times = numbers(2);
  table.last_times = numbers(3);
  std::int64_t begin = 0;
  for (const std::int64_t end : table.ends) {
    if (end < begin) throw Error(bad, "rows of its entities overlap", path);
    begin = end;
  }
  if (begin != metadata.n_rows)
    throw_error(bad, path, "its entities have {} rows where there are {}", begin, metadata.n_rows);
  buffer->require_intact();
  return table;
}

}  // namespace cellfeed::series
