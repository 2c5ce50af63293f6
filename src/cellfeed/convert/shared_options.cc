#include "cellfeed/convert/shared_options.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "cellfeed/base/error.h"

namespace cellfeed::convert {
namespace {

using Json = nlohmann::json;
using format::shard::GeneOrder;
using format::shard::Layout;

template <typename T, std::size_t N>
using Names = std::array<std::pair<const char*, T>, N>;
constexpr Names<Layout, 2> kLayouts = {{{"packed", Layout::kPacked}, {"dense", Layout::kDense}}};
constexpr Names<GeneOrder, 2> kGeneOrders = {
    {{"source", GeneOrder::kSource}, {"mean", GeneOrder::kMean}}};
constexpr Names<ExistingTarget, 3> kExisting = {{{"refuse", ExistingTarget::kRefuse},
                                                 {"resume", ExistingTarget::kResume},
                                                 {"overwrite", ExistingTarget::kOverwrite}}};

template <typename T, std::size_t N>
std::string name_of(const Names<T, N>& names, T value) {
  return std::ranges::find(names, value, &std::pair<const char*, T>::second)->first;
}

template <typename T, std::size_t N>
T value_of(const Names<T, N>& names, const Json& json, const char* key) {
  const auto name = json.at(key).get<std::string>();
  for (const auto& [known, value] : names)
    if (name == known) return value;
  throw_invalid("{} is '{}'", key, name);
}

// Both ways: of what is written and of what is read.
template <typename Options, typename Visit>
void for_each_field(Options& o, Visit&& visit) {
  visit("output_dir", o.output_dir);
  visit("shard_size", o.shard_size);
  visit("obs", o.obs.only);
  visit("exclude_obs", o.obs.excluded);
  visit("shuffle", o.shuffle);
  visit("seed", o.seed);
}

template <typename Options, typename Visit>
void for_each_step(Options& o, Visit&& visit) {
  visit("normalize", o.normalize);
  visit("target_sum", o.target_sum);
  visit("log_transform", o.log_transform);
  visit("n_top_genes", o.n_top_genes);
  visit("batch_key", o.batch_key);
  visit("min_genes", o.min_genes);
  visit("min_cells", o.min_cells);
  visit("max_mito_share", o.max_mito_share);
  visit("mito_prefix", o.mito_prefix);
  visit("keep_counts", o.keeps_counts);
  visit("force", o.is_forced);
}

}  // namespace

std::string to_text(const SharedOptions& options) {
  Json json;
  for_each_field(options.convert, [&](const char* key, const auto& value) { json[key] = value; });
  json["layout"] = name_of(kLayouts, options.convert.layout);
  json["gene_order"] = name_of(kGeneOrders, options.convert.gene_order);
  json["existing"] = name_of(kExisting, options.convert.existing);
  if (options.processing) {
    Json& steps = json["processing"];
    for_each_step(*options.processing,
                  [&](const char* key, const auto& value) { steps[key] = value; });
    steps["hvg_flavor"] = flavor_name(options.processing->flavor);
  }
  try {
    return json.dump();
  } catch (const Json::exception&) {
    throw_invalid(
        "several processes are told the names of files, columns and genes as UTF-8, and one of "
        "these is not; rename it");
  }
}

SharedOptions shared_options_of(const std::string& text) {
  SharedOptions options;
  try {
    const Json json = Json::parse(text);
    for_each_field(options.convert,
                   [&](const char* key, auto& value) { json.at(key).get_to(value); });
    options.convert.layout = value_of(kLayouts, json, "layout");
    options.convert.gene_order = value_of(kGeneOrders, json, "gene_order");
    options.convert.existing = value_of(kExisting, json, "existing");
    if (!json.contains("processing")) return options;
    const Json& steps = json.at("processing");
    options.processing.emplace();
    for_each_step(*options.processing,
                  [&](const char* key, auto& value) { steps.at(key).get_to(value); });
    options.processing->flavor = flavor_from_name(steps.at("hvg_flavor").get<std::string>());
  } catch (const Json::exception& error) {
    throw_invalid("the options of the conversion cannot be read: {}", error.what());
  }
  return options;
}

}  // namespace cellfeed::convert
