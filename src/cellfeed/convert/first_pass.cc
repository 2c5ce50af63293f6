#include "cellfeed/convert/first_pass.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/checksum.h"
#include "cellfeed/format/shard/file_names.h"
#include "cellfeed/io/atomic_file.h"
#include "cellfeed/io/small_file.h"

namespace cellfeed::convert {
namespace {

namespace shard = format::shard;
using Json = nlohmann::json;

// Rows and totals of some billions of cells.
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 36;

template <typename T>
Json pack(const std::vector<T>& values) {
  std::vector<std::uint8_t> bytes(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return Json::binary(std::move(bytes));
}

template <typename T>
std::vector<T> unpack(const Json& json) {
  const auto& bytes = json.get_binary();
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

Json to_json(const FirstPass& found) {
  Json json = {{"gene_order", pack(found.gene_order)},
               {"genes", pack(found.kept.genes)},
               {"rows", Json::array()},
               {"totals", Json::array()}};
  for (const auto& rows : found.kept.rows) json["rows"].push_back(rows ? pack(*rows) : Json());
  for (const auto& totals : found.kept.totals) json["totals"].push_back(pack(totals));
  return json;
}

FirstPass from_json(const Json& json) {
  FirstPass found;
  found.gene_order = unpack<std::int64_t>(json.at("gene_order"));
  found.kept.genes = unpack<std::int64_t>(json.at("genes"));
  for (const Json& rows : json.at("rows")) {
    auto& kept = found.kept.rows.emplace_back();
    if (!rows.is_null()) kept = unpack<std::int64_t>(rows);
  }
  for (const Json& totals : json.at("totals")) found.kept.totals.push_back(unpack<double>(totals));
  return found;
}

}  // namespace

void write_first_pass(const ShardTarget& target, const FirstPass& found) {
  const std::vector<std::uint8_t> bytes = Json::to_cbor(to_json(found));
  const std::uint64_t checksum = shard::checksum_bytes(std::as_bytes(std::span(bytes)));
  io::AtomicFile file(io::FileTarget(target.dir, shard::first_pass_name(target.generation)),
                      io::OnExisting::kReplace);
  file.append(std::as_bytes(std::span(&checksum, 1)));
  file.append(std::as_bytes(std::span(bytes)));
  file.commit();
}

FirstPass read_first_pass(const ShardTarget& target) {
  const std::string path = target.dir.path_of(shard::first_pass_name(target.generation));
  const std::string bytes = io::read_small_file(path, kMaxBytes);
  std::uint64_t checksum = 0;
  const auto rest = std::span(bytes).subspan(std::min(bytes.size(), sizeof checksum));
  if (bytes.size() >= sizeof checksum) std::memcpy(&checksum, bytes.data(), sizeof checksum);
  if (rest.empty() || shard::checksum_bytes(std::as_bytes(rest)) != checksum)
    throw Error(ErrorKind::kCorruptData,
                "is not as the process that began the conversion wrote it; begin again", path);
  try {
    return from_json(Json::from_cbor(rest.begin(), rest.end()));
  } catch (const Json::exception&) {
    throw Error(ErrorKind::kCorruptData, "holds what another cellfeed wrote; begin again", path);
  }
}

}  // namespace cellfeed::convert
