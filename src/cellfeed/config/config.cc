#include "cellfeed/config/config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "cellfeed/base/byte_size.h"
#include "cellfeed/base/error.h"
#include "cellfeed/base/nearest_name.h"
#include "cellfeed/config/scalar_value.h"

namespace cellfeed::config {
namespace {

std::string joined(const std::string& section, std::string_view name) {
  return section.empty() ? std::string(name) : fmt::format("{}.{}", section, name);
}

// "batch_size" at the top is meant to be training.batch_size.
std::string place_elsewhere(std::string_view name) {
  std::string found;
  for (const Setting& setting : settings())
    if (name_of(setting.key) == name) {
      if (!found.empty()) return {};
      found = setting.key;
    }
  return found;
}

std::string unknown_key(const std::string& section, const std::string& name) {
  const std::string where = section.empty() ? "a configuration" : section;
  const auto known = names_in(section);
  const std::string elsewhere = place_elsewhere(name);
  if (!elsewhere.empty() && nearest_name(name, known).empty())
    return fmt::format("{} has no setting '{}'; did you mean {}?", where, name, elsewhere);
  return fmt::format("{} has no setting '{}'{}", where, name, suggestion(name, known));
}

std::string values_or(const std::vector<std::string_view>& values) {
  std::string text;
  for (const std::string_view value : values)
    text += fmt::format("{}{}", text.empty() ? "" : " or ", value);
  return text;
}

}  // namespace

Config Config::parse(std::string_view text, const std::string& path) {
  Config config(path);
  const YamlNode root = parse_yaml(text, path);
  if (root.kind == YamlNode::Kind::kNull)
    throw Error(ErrorKind::kInvalidArgument,
                "holds no settings; `cellfeed config --schema` lists what there is", path);
  config.read_section(root, "");
  config.check_needs();
  config.check_contradictions();
  return config;
}

void Config::read_section(const YamlNode& node, const std::string& section) {
  const std::string what = section.empty() ? "a configuration" : section;
  if (node.kind != YamlNode::Kind::kMap)
    refuse_at(path_, node.place,
              fmt::format("{} must be a group of settings ({}), not {}", what,
                          fmt::join(names_in(section), ", "), describe_node(node)));
  for (const YamlNode::Entry& entry : node.entries) {
    const std::string key = joined(section, entry.key);
    const Setting* setting = find_setting(key);
    // A dot in a key would read as a path.
    if (entry.key.find('.') != std::string::npos || (setting == nullptr && !is_section(key)))
      refuse_at(path_, entry.place, unknown_key(section, entry.key));
    places_[key] = entry.place;
    if (entry.value.kind == YamlNode::Kind::kNull)
      refuse_at(path_, entry.place,
                fmt::format("{} has no value; give one, or remove the line", key));
    if (setting != nullptr)
      read_setting(*setting, entry.value);
    else
      read_section(entry.value, key);
  }
}

void Config::read_setting(const Setting& setting, const YamlNode& node) {
  given_.emplace(setting.key, read_value(setting, node, path_));
}

bool Config::is_given(std::string_view key) const { return places_.contains(key); }

const Value& Config::value(std::string_view key) const {
  const auto at = given_.find(key);
  return at == given_.end() ? find_setting(key)->default_value : at->second;
}

bool Config::has_value(std::string_view key) const {
  return !std::holds_alternative<std::monostate>(value(key));
}

void Config::refuse(ErrorKind kind, std::string_view key, const std::string& what) const {
  const auto at = places_.find(key);
  if (at == places_.end()) throw_error(kind, path_, "{}: {}", key, what);
  throw_error(kind, path_, "line {}, column {}: {}: {}", at->second.line, at->second.column, key,
              what);
}

std::string Config::why_unused(const Setting& setting) const {
  constexpr std::string_view kPreprocessing = "data.preprocessing";
  if (section_of(setting.key) == kPreprocessing && !is_given(kPreprocessing))
    return fmt::format("{} is not given", kPreprocessing);
  if (setting.key == "data.preprocessing.hvg_flavor" &&
      !has_value("data.preprocessing.n_top_genes"))
    return "data.preprocessing.n_top_genes is not given";
  const Need& need = setting.need;
  if (need.key.empty()) return {};
  const std::string now = value_text(value(need.key));
  if (std::find(need.values.begin(), need.values.end(), now) != need.values.end()) return {};
  return fmt::format("{} is {}", need.key, now);
}

// A setting without the one that switches it on would be ignored. Where the file itself switches it
// off, that is what it says.
void Config::check_needs() const {
  for (const auto& [key, value] : given_) {
    const Need& need = find_setting(key)->need;
    if (need.key.empty() || is_given(need.key)) continue;
    const std::string now = value_text(this->value(need.key));
    if (std::find(need.values.begin(), need.values.end(), now) == need.values.end())
      refuse(ErrorKind::kInvalidArgument, key,
             fmt::format("has no effect while {} is {}; set {} to {}, or remove {}", need.key, now,
                         need.key, values_or(need.values), key));
  }
}

void Config::check_contradictions() const {
  const auto clash = [&](std::string_view key, const std::string& what) {
    refuse(ErrorKind::kInvalidArgument, key, what);
  };
  if (flag("data.shards.enabled")) {
    if (!has_value("data.shards.shard_dir"))
      clash("data.shards.enabled", "needs data.shards.shard_dir, the folder of the shards");
    if (flag("data.streaming"))
      clash("data.streaming", "contradicts data.shards.enabled: choose one of the two");
  }
  const bool has_cache = has_value("data.cloud.cache_dir");
  const std::string& cached = text("data.cloud.cache");
  const bool caches_rows = cached == "rows";
  if (caches_rows && !has_cache)
    clash("data.cloud.cache", "rows needs data.cloud.cache_dir, the folder of the rows");
  if (cached == "blocks" && !has_cache)
    clash("data.cloud.cache", "blocks needs data.cloud.cache_dir, the folder of the blocks");
  if (caches_rows && flag("data.shards.enabled"))
    clash("data.cloud.cache", "rows is for files: shards are packed already");
  if (has_value("data.cloud.cache_bytes")) {
    if (!has_cache || caches_rows)
      clash("data.cloud.cache_bytes",
            "limits whole files and blocks in data.cloud.cache_dir, and none are kept");
    try {
      parse_byte_size(text("data.cloud.cache_bytes"));
    } catch (const Error& error) {
      clash("data.cloud.cache_bytes", error.what());
    }
  }
  const std::string& flavor = text("data.preprocessing.hvg_flavor");
  // Values that are not to be normalised may be logarithms already; preprocess looks.
  if (has_value("data.preprocessing.n_top_genes") && flavor != "seurat_v3" &&
      flag("data.preprocessing.normalize") && !flag("data.preprocessing.log_transform"))
    clash("data.preprocessing.log_transform",
          fmt::format("false contradicts data.preprocessing.n_top_genes: highly variable genes of "
                      "flavor {} are found in log-transformed values; set it to true, or "
                      "data.preprocessing.hvg_flavor to seurat_v3, which finds them in counts",
                      flavor));
  if (text("data.gene_selection.strategy") != "all" && !has_value("data.gene_selection.n_genes"))
    clash("data.gene_selection.strategy", "needs data.gene_selection.n_genes, how many genes");
  if (has_value("data.vocab.path") && has_value("data.vocab.n_genes"))
    clash("data.vocab.n_genes", "contradicts data.vocab.path: give one of the two");
  if (has_value("data.split.column"))
    for (const std::string_view key :
         {"data.split.val", "data.split.test", "data.split.by", "data.split.seed"})
      if (is_given(key))
        clash(key, "contradicts data.split.column, which says the part of each cell");
  if (number("data.split.val") + number("data.split.test") >= 1)
    clash("data.split.test", "and data.split.val leave no cells to train on");
  const std::string& architecture = text("model.architecture");
  const std::string& objective = text("training.objective");
  const bool is_masked = objective == "masked_genes" || objective == "both";
  if (architecture == "mlp" && is_masked)
    clash("training.objective",
          fmt::format("{} needs model.architecture transformer_encoder", objective));
  if ((objective == "classification" || objective == "both") && !has_value("training.label_key"))
    clash("training.objective",
          fmt::format("{} needs training.label_key, the obs column to predict", objective));
  if (architecture == "transformer_encoder" && whole("model.d_model") % whole("model.n_heads") != 0)
    clash(is_given("model.n_heads") ? "model.n_heads" : "model.d_model",
          fmt::format("model.d_model is {}, which {} heads cannot share; make it a multiple",
                      whole("model.d_model"), whole("model.n_heads")));
  if (text("training.sampling.strategy") == "weighted" && !has_value("training.sampling.label_key"))
    clash("training.sampling.strategy",
          "weighted sampling needs training.sampling.label_key, the obs column with the labels");
  if (text("training.sampling.strategy") == "weighted" && flag("data.streaming"))
    clash("training.sampling.strategy",
          "weighted contradicts data.streaming, which reads the files in order: choose one");
  if (whole("training.early_stopping_patience") > 0 && !has_value("data.split.column") &&
      number("data.split.val") == 0)
    clash("training.early_stopping_patience",
          "watches the validation loss, and data.split.val is 0: give a share of the cells");
  const std::string& strategy = text("training.strategy");
  if (strategy == "ddp" && flag("training.fsdp.enabled"))
    clash("training.strategy", "ddp contradicts training.fsdp.enabled: choose one of the two");
  if (strategy == "fsdp" && is_given("training.fsdp.enabled") && !flag("training.fsdp.enabled"))
    clash("training.strategy", "fsdp contradicts training.fsdp.enabled: false");
  const std::string& precision = text("training.precision");
  if ((strategy == "fsdp" || flag("training.fsdp.enabled")) &&
      (precision == "16-mixed" || precision == "64-true"))
    clash("training.precision",
          fmt::format("parameters that are shared out (fsdp) are not trained in {}: choose "
                      "bf16-mixed, bf16-true, 16-true or 32-true",
                      precision));
}

Paths Config::data_paths(std::string_view purpose) const {
  constexpr std::string_view kKey = "data.paths";
  if (!has_value(kKey))
    refuse(ErrorKind::kInvalidArgument, kKey,
           fmt::format("the configuration names no files {}; give data.paths", purpose));
  return std::get<Paths>(value(kKey));
}

}  // namespace cellfeed::config
