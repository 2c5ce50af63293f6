#include "cellfeed/convert/conversion_plan.h"

#include <arrow/type.h>
#include <arrow/util/utf8.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cellfeed/base/error.h"
#include "cellfeed/convert/append/shard_base.h"
#include "cellfeed/format/shard/manifest_json.h"

namespace cellfeed::convert {
namespace {

namespace shard = format::shard;
using Json = nlohmann::json;

std::string text_of(const Json& value) {
  if (value.is_null()) return "not given";
  return value.is_string() ? fmt::format("'{}'", value.get<std::string>()) : value.dump();
}

std::string source_difference(const Json& before, const Json& now) {
  const auto is_selected = [](const Json& source) { return source.contains("selected"); };
  const bool are_files =
      std::ranges::none_of(before, is_selected) && std::ranges::none_of(now, is_selected);
  if (before.size() != now.size() && !are_files) return "other cells were chosen";
  if (before.size() != now.size())
    return fmt::format("there were {} inputs, now there are {}", before.size(), now.size());
  for (std::size_t i = 0; i < now.size(); ++i) {
    const std::string path = now[i].value("path", "");
    for (const char* key : {"path", "layer"})
      if (before[i].value(key, "") != now[i].value(key, ""))
        return fmt::format("the {} of input {} was '{}', now '{}'", key, i + 1,
                           before[i].value(key, ""), now[i].value(key, ""));
    if (before[i].value("selected", Json()) != now[i].value("selected", Json()))
      return fmt::format("other cells of '{}' were chosen", path);
    if (before[i] != now[i])
      return fmt::format("what input {} holds has changed: '{}'", i + 1, path);
  }
  return "the inputs have changed";
}

Json sources_json(const Sources& sources) {
  Json list = Json::array();
  const std::vector<std::uint64_t> fingerprints = sources.fingerprints();
  for (std::int64_t s = 0; s < sources.n_sources(); ++s) {
    const auto& store = sources.store(s);
    list.push_back({{"path", store.info().path},
                    {"layer", store.info().layer},
                    {"fingerprint", fingerprints[static_cast<std::size_t>(s)]},
                    {"n_cells", store.info().n_rows}});
    if (const auto& selected = store.info().selected)
      list.back()["selected"] = {selected->n_rows, selected->rows};
  }
  return list;
}

std::string matrices_difference(const Json& before, const Json& now) {
  const auto names = [](const Json& matrices) {
    std::string text;
    for (const Json& matrix : matrices)
      text += (text.empty() ? "" : ", ") + matrix.value("name", "");
    return text.empty() ? "none" : text;
  };
  if (names(before) != names(now))
    return fmt::format("its layers and obsm were {}, now {}", names(before), names(now));
  return fmt::format("what the inputs hold of {} has changed", names(now));
}

}  // namespace

// obs names the files, so their paths are part of it too.
std::string conversion_plan(const ConvertOptions& options, std::span<const PlannedMatrix> matrices,
                            const arrow::Schema& obs_schema) {
  const Sources& sources = matrices[0].sources;
  Json plan = {
      {"writer", 1},
      {"layout", options.layout == shard::Layout::kDense ? "dense" : "packed"},
      {"gene_order", options.gene_order == shard::GeneOrder::kMean ? "mean" : "source"},
      {"shard_size", options.shard_size},
      {"value_dtype", dtype_name(matrices[0].value_dtype)},
      {"genes", shard::gene_fingerprint(sources.genes().names)},
      {"var_key", sources.var_keys()},
      {"obs", obs_schema.ToString()},
  };
  if (options.shuffle) plan["shuffle_seed"] = options.seed;
  if (options.base) plan["appended_to"] = shard::checksum_to_text(options.base->fingerprint());
  plan["selection"] = options.input.selection_json;
  plan["sources"] = sources_json(sources);
  for (const PlannedMatrix& matrix : matrices.subspan(1))
    plan["matrices"].push_back({{"name", matrix.name},
                                {"value_dtype", dtype_name(matrix.value_dtype)},
                                {"n_columns", matrix.sources.genes().size()},
                                {"sources", sources_json(matrix.sources)}});
  return plan.dump();
}

void require_utf8_paths(const Sources& sources) {
  arrow::util::InitializeUTF8();
  for (std::int64_t s = 0; s < sources.n_sources(); ++s) {
    const std::string& path = sources.store(s).info().path;
    if (!arrow::util::ValidateUTF8(path))
      throw_error(ErrorKind::kInvalidArgument, path,
                  "shards keep the names of their sources, and this one is not UTF-8; rename the "
                  "file");
  }
}

std::string plan_difference(const std::string& before, const std::string& now) {
  const Json was = Json::parse(before, nullptr, false);
  const Json is = Json::parse(now, nullptr, false);
  if (!was.is_object() || !is.is_object()) return "its journal holds another plan";
  const auto part_of = [](const Json& plan, const char* key) { return plan.value(key, Json()); };
  if (was.contains("appended_to") && !is.contains("appended_to"))
    return "cells were being appended to its shards";
  if (part_of(was, "appended_to") != part_of(is, "appended_to"))
    return "the shards that cells are appended to were others";
  try {
    if (part_of(was, "sources") != part_of(is, "sources"))
      return source_difference(part_of(was, "sources"), part_of(is, "sources"));
    if (part_of(was, "matrices") != part_of(is, "matrices"))
      return matrices_difference(part_of(was, "matrices"), part_of(is, "matrices"));
  } catch (const Json::exception&) {
    return "its journal holds another plan";
  }
  for (const char* key :
       {"layout", "gene_order", "shard_size", "var_key", "shuffle_seed", "value_dtype"})
    if (part_of(was, key) != part_of(is, key))
      return fmt::format("{} was {}, now {}", key, text_of(part_of(was, key)),
                         text_of(part_of(is, key)));
  if (part_of(was, "genes") != part_of(is, "genes")) return "its genes were others";
  if (part_of(was, "selection") != part_of(is, "selection"))
    return "other cells were chosen, or in other steps";
  if (part_of(was, "obs") != part_of(is, "obs")) return "its obs columns were others";
  return "another cellfeed began it";
}

}  // namespace cellfeed::convert
