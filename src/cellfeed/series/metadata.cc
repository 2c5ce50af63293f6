#include "cellfeed/series/metadata.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "cellfeed/base/checked_size.h"
#include "cellfeed/base/error.h"
#include "cellfeed/base/json_depth.h"
#include "cellfeed/format/shard/checksum.h"
#include "cellfeed/io/atomic_file.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/io/link_note.h"
#include "cellfeed/io/look_anew.h"
#include "cellfeed/io/small_file.h"
#include "cellfeed/series/json_text.h"
#include "cellfeed/series/placed_file.h"

namespace cellfeed::series {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 3;
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
               {"fit_until", text_or_null(m.fit_until)},
               {"fit_mask", text_or_null(m.fit_mask)},
               {"fit_last_time", text_or_null(m.fit_last_time)},
               {"static", m.columns.static_columns},
               {"missing", m.missing},
               {"duplicates", m.duplicates},
               {"sort", m.sort},
               {"freq", m.freq},
               {"window", m.window > 0 ? Json(m.window) : Json()},
               {"horizon", m.horizon},
               {"stride", m.stride},
               {"n_files", m.n_files},
               {"n_rows_read", m.n_rows_read},
               {"n_dropped", m.n_dropped},
               {"n_merged", m.n_merged},
               {"n_appends", m.n_appends},
               {"built", hex(m.built)},
               {"plan", hex(m.plan)},
               {"input",
                {{"entity", m.columns.entity},
                 {"entity_pattern", m.columns.entity_pattern},
                 {"time", m.columns.time},
                 {"time_unit", m.columns.time_unit},
                 {"fit_mask", m.columns.fit_mask},
                 {"decimal", m.columns.numbers.decimal},
                 {"thousands", m.columns.numbers.thousands},
                 {"na_values", m.columns.numbers.na_values},
                 {"features", m.has_auto_features ? "numeric" : "named"}}},
               {"segment_bytes", kSegmentBytes}};
  json["files"] = Json::array();
  for (const SeriesFile& file : m.files)
    json["files"].push_back(
        {{"name", file.name}, {"bytes", file.bytes}, {"checksum", hex(file.checksum)}});
  return json;
}

Json static_json(const StaticValue& value) {
  if (const auto* number = std::get_if<double>(&value)) return *number;
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  return {};
}

std::string entities_text(const EntityTable& entities, TimeKind kind) {
  std::string text;
  for (std::int64_t e = 0; e < entities.size(); ++e) {
    const auto i = static_cast<std::size_t>(e);
    Json rows = Json::array();
    for (const Extent& extent : entities.extents(e)) rows.push_back({extent.begin, extent.end});
    const auto time = [&](std::int64_t t) {
      return rows.empty() ? Json() : Json(time_text(t, kind));
    };
    Json json = {{"name", entities.names[i]},
                 {"rows", rows},
                 {"first_time", time(entities.first_times[i])},
                 {"last_time", time(entities.last_times[i])}};
    for (std::size_t c = 0; c < entities.statics.n_cols(); ++c)
      json["static"][entities.statics.names()[c]] = static_json(entities.statics.value(e, c));
    text += (e == 0 ? "\n    " : ",\n    ") + json.dump();
  }
  return text;
}

std::int64_t count_of(const Json& json, const char* name, const std::string& path,
                      std::int64_t low) {
  const Json& value = json.at(name);
  constexpr std::int64_t kMost = std::int64_t{1} << 50;
  if (!value.is_number_integer() || value < low || value > kMost)
    throw_error(ErrorKind::kCorruptData, path, "'{}' is no count: {}", name, value.dump());
  return value;
}

SeriesMetadata parse_header(const Json& json, const std::string& path) {
  if (json.at("format") != "cellfeed-series")
    throw Error(ErrorKind::kCorruptData, "is not the metadata of a series", path);
  if (json.at("version") != kVersion)
    throw_error(ErrorKind::kUnsupported, path, "is of version {}, and this cellfeed reads {}",
                json.at("version").dump(), kVersion);
  const auto count = [&](const Json& of, const char* name, std::int64_t low = 0) {
    return count_of(of, name, path, low);
  };
  SeriesMetadata m;
  m.features = json.at("features").get<std::vector<std::string>>();
  m.target = json.at("target").get<std::vector<std::string>>();
  m.dtype = dtype_from_name(json.at("dtype").get<std::string>());
  if (m.features.empty() || !is_float(m.dtype))
    throw Error(ErrorKind::kCorruptData, "names no features, or a dtype that is no float", path);
  for (const std::string& name : m.target)
    if (std::ranges::find(m.features, name) == m.features.end())
      throw_error(ErrorKind::kCorruptData, path, "the target '{}' is no feature", name);
  m.n_rows = count(json, "n_rows");
  m.n_entities = count(json, "n_entities");
  m.time_kind = time_kind_from_name(json.at("time").at("kind").get<std::string>());
  m.scaler = scaler_kind_from_name(json.at("scaler").get<std::string>());
  m.scale = scale_of_from_name(json.at("scale").get<std::string>());
  if (!json.at("fit_until").is_null()) m.fit_until = json.at("fit_until");
  if (!json.at("fit_mask").is_null()) m.fit_mask = json.at("fit_mask");
  if (!json.at("fit_last_time").is_null()) m.fit_last_time = json.at("fit_last_time");
  m.missing = json.at("missing");
  m.duplicates = json.at("duplicates");
  m.sort = json.at("sort");
  m.freq = std::max<std::int64_t>(0, json.at("freq").get<std::int64_t>());
  if (!json.at("window").is_null()) m.window = count(json, "window", 1);
  m.horizon = count(json, "horizon", 1);
  m.stride = count(json, "stride", 1);
  m.n_files = count(json, "n_files");
  m.n_rows_read = count(json, "n_rows_read");
  m.n_dropped = count(json, "n_dropped");
  m.n_merged = count(json, "n_merged");
  m.n_appends = count(json, "n_appends");
  m.built = parse_hex(json.at("built").get<std::string>(), path);
  m.plan = parse_hex(json.at("plan").get<std::string>(), path);
  const Json& input = json.at("input");
  m.columns = {.features = m.features,
               .time = input.at("time"),
               .time_unit = input.at("time_unit"),
               .entity = input.at("entity"),
               .entity_pattern = input.at("entity_pattern"),
               .static_columns = json.at("static").get<std::vector<std::string>>(),
               .fit_mask = input.at("fit_mask"),
               .numbers = {.decimal = input.at("decimal"),
                           .thousands = input.at("thousands"),
                           .na_values = input.at("na_values")}};
  check_text_numbers(m.columns.numbers);
  m.has_auto_features = input.at("features") == "numeric";
  if (json.at("segment_bytes") != kSegmentBytes)
    throw Error(ErrorKind::kUnsupported, "has segments of another size", path);
  for (const Json& file : json.at("files"))
    m.files.push_back({file.at("name"), count(file, "bytes"),
                       parse_hex(file.at("checksum").get<std::string>(), path)});
  return m;
}

constexpr const char* kFileNames[] = {kFeaturesName, kTimesName, kChecksumsName, kEntitiesName,
                                      kScalerName};

// The number of appends in a name; empty where it is not that of this file.
std::optional<std::int64_t> appends_in_name(std::string_view name, std::string_view of) {
  const std::size_t dot = of.rfind('.');
  if (name == of) return 0;
  if (!name.starts_with(of.substr(0, dot + 1)) || !name.ends_with(of.substr(dot)) ||
      name.size() <= of.size() + 1)
    return std::nullopt;
  const std::string_view digits = name.substr(dot + 1, name.size() - of.size() - 1);
  std::int64_t n = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
  if (error != std::errc() || end != digits.data() + digits.size() || n < 1) return std::nullopt;
  return n;
}

// A file that the metadata do not know, or of another size, is not theirs.
void check_files(const std::string& dir, const SeriesMetadata& m, const std::string& path) {
  const CheckedSize values = CheckedSize(m.n_rows) * static_cast<std::int64_t>(m.features.size()) *
                             static_cast<std::int64_t>(dtype_bytes(m.dtype));
  const CheckedSize times = CheckedSize(m.n_rows) * 8;
  const io::Directory directory(dir);
  if (m.files.size() != std::size(kFileNames))
    throw Error(ErrorKind::kCorruptData, "does not list the five files of a series", path);
  for (std::size_t i = 0; i < m.files.size(); ++i) {
    const SeriesFile& file = m.files[i];
    const auto n_appends = appends_in_name(file.name, kFileNames[i]);
    const bool is_of_rows = i < 2;
    if (!n_appends || *n_appends > m.n_appends || (is_of_rows && *n_appends > 0))
      throw_error(ErrorKind::kCorruptData, path, "names '{}' where {} is expected", file.name,
                  kFileNames[i]);
    if ((i == 0 && !(values == file.bytes)) || (i == 1 && !(times == file.bytes)))
      throw_error(ErrorKind::kCorruptData, path, "{} rows do not take the {} bytes of {}", m.n_rows,
                  file.bytes, file.name);
    const std::string file_path = directory.path_of(file.name);
    const io::PathStatus found = io::status_of(file_path);
    if (!found.is_file())
      throw_error(ErrorKind::kNotFound, dir, "{} is missing{}; restore it, or build again",
                  file.name, io::link_note(file_path));
    if (is_of_rows && found.size > file.bytes && is_appended_to(dir)) continue;
    if (found.size != file.bytes)
      throw_error(ErrorKind::kCorruptData, file_path,
                  "has {} bytes where the metadata say {}{}: it was cut off or replaced",
                  found.size, file.bytes, io::link_note(file_path));
  }
}

}  // namespace

bool is_appended_to(const std::string& dir) {
  return io::is_directory(io::Directory(dir).path_of(kAppendingFolder));
}

std::string name_after_appends(std::string_view name, std::int64_t n_appends) {
  if (n_appends == 0) return std::string(name);
  const std::size_t dot = name.rfind('.');
  return fmt::format("{}.{}{}", name.substr(0, dot), n_appends, name.substr(dot));
}

bool is_series_file(std::string_view name) {
  return name == kMetadataName || std::ranges::any_of(kFileNames, [&](std::string_view of) {
           return appends_in_name(name, of).has_value();
         });
}

io::UnfinishedUploads remove_unfinished_uploads(const io::Directory& dir) {
  return (*dir).remove_unfinished_uploads(is_series_file);
}

const SeriesFile& SeriesMetadata::file(std::string_view name) const {
  return files[static_cast<std::size_t>(std::ranges::find(kFileNames, name) -
                                        std::begin(kFileNames))];
}

SeriesFile write_checked_file(const io::Directory& directory, const std::string& name,
                              std::string_view bytes) {
  io::AtomicFile file({directory, name}, io::OnExisting::kReplace);
  file.append(std::as_bytes(std::span(bytes)));
  file.commit();
  return {name, static_cast<std::int64_t>(bytes.size()), text_checksum(bytes)};
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

namespace {

SeriesMetadata parse_metadata(const std::string& text, const std::string& path) {
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
    return parse_header(Json::parse("{\n" + std::string(rest.substr(0, entities)) + "}"), path);
  } catch (const nlohmann::json::exception& failure) {
    throw_error(ErrorKind::kCorruptData, path, "is not the metadata of a series: {}",
                failure.what());
  }
}

std::string metadata_path(const std::string& dir) {
  if (!io::is_directory(dir))
    throw Error(ErrorKind::kNotFound, "is no series directory: there is no such directory", dir);
  return io::Directory(dir).path_of(kMetadataName);
}

std::string metadata_text(const std::string& dir) {
  const std::string path = metadata_path(dir);
  if (!io::exists(path))
    throw Error(ErrorKind::kNotFound,
                "is no series directory, or its build did not finish: it has no metadata.json",
                dir);
  return io::read_small_file(path, kMaxMetadataBytes);
}

// fn(metadata, text of the file), again where an append replaced what it reads meanwhile.
template <typename Fn>
auto with_metadata(const std::string& dir, const Fn& fn) {
  io::look_anew();
  const std::string path = metadata_path(dir);
  for (std::string text = metadata_text(dir);;) {
    try {
      const SeriesMetadata metadata = parse_metadata(text, path);
      check_files(dir, metadata, path);
      return fn(metadata, text);
    } catch (const Error&) {
      io::look_anew();
      std::string now = metadata_text(dir);
      if (now == text) throw;
      text = std::move(now);
    }
  }
}

}  // namespace

SeriesMetadata read_metadata(const std::string& dir) {
  return with_metadata(dir,
                       [](const SeriesMetadata& metadata, const std::string&) { return metadata; });
}

void require_same_entities(const std::string& dir) {
  with_metadata(dir, [&](const SeriesMetadata& metadata, const std::string& text) {
    const std::string path = metadata_path(dir);
    const EntityTable entities = read_entities(dir, metadata);
    const auto of_table =
        nlohmann::json::parse(fmt::format("[{}]", entities_text(entities, metadata.time_kind)));
    nlohmann::json listed;
    try {
      listed = nlohmann::json::parse(text).at("entities");
    } catch (const nlohmann::json::exception& failure) {
      throw_error(ErrorKind::kCorruptData, path, "its entities cannot be read: {}", failure.what());
    }
    if (listed.size() != of_table.size())
      throw_error(ErrorKind::kCorruptData, path, "lists {} entities where {} has {}", listed.size(),
                  metadata.file(kEntitiesName).name, of_table.size());
    for (std::size_t e = 0; e < of_table.size(); ++e)
      if (listed[e] != of_table[e])
        throw_error(ErrorKind::kCorruptData, path, "entity {} is {} where {} says {}", e,
                    listed[e].dump(), metadata.file(kEntitiesName).name, of_table[e].dump());
    return 0;
  });
}

std::pair<SeriesMetadata, EntityTable> read_series(const std::string& dir) {
  return with_metadata(dir, [&](const SeriesMetadata& metadata, const std::string&) {
    return std::pair(metadata, read_entities(dir, metadata));
  });
}

}  // namespace cellfeed::series
