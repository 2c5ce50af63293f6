#include "cellfeed/format/shard/manifest_json.h"

#include <charconv>
#include <string_view>

#include "cellfeed/base/error.h"
#include "cellfeed/base/json_depth.h"

namespace cellfeed::format::shard {
namespace {

constexpr std::int64_t kMaxCount = std::int64_t{1} << 50;

constexpr const char* kColumnsKey = "columns";

bool is_plain_name(const std::string& name) {
  if (name.empty() || name.size() > 255 || name.front() == '.') return false;
  return name.find_first_of(std::string("/\\\0", 3)) == std::string::npos;
}

}  // namespace

Json parse_json(const std::string& text, const std::string& path) {
  require_shallow_json(text, path);
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    throw_error(ErrorKind::kCorruptData, path, "not valid JSON: {}", error.what());
  }
}

JsonReader::JsonReader(const Json& object, const std::string& path) : object_(object), path_(path) {
  if (!object.is_object())
    throw_error(ErrorKind::kCorruptData, path, "an object was expected, not: {}",
                object.type_name());
}

const Json& JsonReader::at(const char* key) const {
  const auto found = object_.find(key);
  if (found == object_.end())
    throw_error(ErrorKind::kCorruptData, path_, "a key is missing: '{}'", key);
  return *found;
}

std::string JsonReader::text(const char* key) const {
  const Json& value = at(key);
  if (!value.is_string()) throw_error(ErrorKind::kCorruptData, path_, "'{}' must be text", key);
  return value.get<std::string>();
}

std::int64_t JsonReader::count(const char* key) const {
  const Json& value = at(key);
  if (!value.is_number_unsigned() ||
      value.get<std::uint64_t>() > static_cast<std::uint64_t>(kMaxCount))
    throw_error(ErrorKind::kCorruptData, path_, "'{}' must be a whole number from 0 to {}, not {}",
                key, kMaxCount, value.dump());
  return value.get<std::int64_t>();
}

bool JsonReader::flag(const char* key) const {
  const Json& value = at(key);
  if (!value.is_boolean())
    throw_error(ErrorKind::kCorruptData, path_, "'{}' must be true or false, not {}", key,
                value.dump());
  return value.get<bool>();
}

std::uint64_t JsonReader::checksum(const char* key) const {
  const std::string digits = text(key);
  std::uint64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto result = std::from_chars(digits.data(), end, value, 16);
  if (digits.size() != 16 || result.ec != std::errc{} || result.ptr != end)
    throw_error(ErrorKind::kCorruptData, path_, "'{}' must be 16 hexadecimal digits, not '{}'", key,
                digits);
  return value;
}

DType JsonReader::dtype(const char* key) const {
  const std::string name = text(key);
  try {
    return dtype_from_name(name);
  } catch (const Error& error) {
    throw_error(ErrorKind::kCorruptData, path_, "'{}': {}", key, error.what());
  }
}

const Json& JsonReader::list(const char* key) const {
  const Json& value = at(key);
  if (!value.is_array()) throw_error(ErrorKind::kCorruptData, path_, "'{}' must be a list", key);
  return value;
}

std::string checksum_to_text(std::uint64_t checksum) { return fmt::format("{:016x}", checksum); }

std::string layout_name(Layout layout) { return layout == Layout::kDense ? "dense" : "packed"; }

Layout layout_from_name(const std::string& name, const std::string& path) {
  if (name == "packed") return Layout::kPacked;
  if (name == "dense") return Layout::kDense;
  throw_error(ErrorKind::kUnsupported, path,
              "unknown layout: '{}', this cellfeed reads packed and dense", name);
}

Json file_to_json(const FileEntry& file) {
  return {
      {"file", file.name}, {"bytes", file.bytes}, {"checksum", checksum_to_text(file.checksum)}};
}

FileEntry file_from_json(const Json& json, const std::string& path) {
  const JsonReader read(json, path);
  FileEntry file{.name = read.text("file"),
                 .bytes = read.count("bytes"),
                 .checksum = read.checksum("checksum")};
  if (!is_plain_name(file.name))
    throw_error(ErrorKind::kCorruptData, path,
                "a file must be a plain name inside the directory, not '{}'", file.name);
  return file;
}

Json matrix_to_json(const MatrixEntry& matrix) {
  Json json{{"name", matrix.name},
            {"layout", layout_name(matrix.layout)},
            {"n_columns", matrix.n_cols},
            {"nnz", matrix.nnz},
            {"dtype", std::string(dtype_name(matrix.value_dtype))}};
  if (!matrix.columns.empty()) json[kColumnsKey] = matrix.columns;
  return json;
}

MatrixEntry matrix_from_json(const Json& json, const std::string& path) {
  const JsonReader item(json, path);
  MatrixEntry matrix{.name = item.text("name"),
                     .layout = layout_from_name(item.text("layout"), path),
                     .n_cols = item.count("n_columns"),
                     .nnz = item.count("nnz"),
                     .value_dtype = item.dtype("dtype")};
  if (!json.contains(kColumnsKey)) return matrix;
  for (const Json& name : item.list(kColumnsKey)) {
    if (!name.is_string())
      throw_error(ErrorKind::kCorruptData, path, "'{}' must be a list of texts", kColumnsKey);
    matrix.columns.push_back(name.get<std::string>());
  }
  return matrix;
}

Json shard_to_json(const ShardEntry& shard) {
  Json matrices = Json::array();
  for (const ShardMatrix& matrix : shard.matrices)
    matrices.push_back(Json{{"nnz", matrix.nnz},
                            {"not_finite", matrix.not_finite},
                            {"matrix", file_to_json(matrix.file)}});
  Json json = {{"shard", shard.shard},           {"first_cell", shard.first_cell},
               {"n_cells", shard.n_cells},       {"nnz", shard.nnz},
               {"not_finite", shard.not_finite}, {"matrix", file_to_json(shard.matrix)},
               {"obs", file_to_json(shard.obs)}, {"fixed_obs", file_to_json(shard.fixed_obs)},
               {"matrices", std::move(matrices)}};
  if (shard.has_own_library_sizes) json[kLibrarySizesKey] = true;
  return json;
}

ShardEntry shard_from_json(const Json& json, const std::string& path) {
  const JsonReader read(json, path);
  ShardEntry shard{.shard = read.count("shard"),
                   .first_cell = read.count("first_cell"),
                   .n_cells = read.count("n_cells"),
                   .nnz = read.count("nnz"),
                   .not_finite = read.count("not_finite"),
                   .matrix = file_from_json(read.at("matrix"), path),
                   .obs = file_from_json(read.at("obs"), path),
                   .fixed_obs = file_from_json(read.at("fixed_obs"), path)};
  for (const auto& matrix : read.list("matrices")) {
    const JsonReader item(matrix, path);
    shard.matrices.push_back({.nnz = item.count("nnz"),
                              .not_finite = item.count("not_finite"),
                              .file = file_from_json(item.at("matrix"), path)});
  }
  shard.has_own_library_sizes = json.contains(kLibrarySizesKey) && read.flag(kLibrarySizesKey);
  return shard;
}

}  // namespace cellfeed::format::shard
