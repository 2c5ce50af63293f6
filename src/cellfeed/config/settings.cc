#include "cellfeed/config/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace cellfeed::config {
namespace {

constexpr double kMaxWhole = 9007199254740992.0;  // 2^53: exact in JSON
constexpr double kMaxCount = 1099511627776.0;     // 2^40
constexpr double kMaxInt32 = 2147483647.0;

Setting flag(std::string_view key, bool value, std::string_view doc, Need need = {}) {
  Setting s{.key = key, .type = ValueType::kBool, .default_value = value, .doc = doc};
  s.need = std::move(need);
  return s;
}

Setting whole(std::string_view key, Value value, std::string_view unit, std::string_view doc,
              double low, double high = kMaxCount, Need need = {}) {
  Setting s{.key = key, .type = ValueType::kInteger, .default_value = std::move(value)};
  s.unit = unit;
  s.doc = doc;
  s.low = low;
  s.high = high;
  s.need = std::move(need);
  return s;
}

Setting number(std::string_view key, double value, std::string_view unit, std::string_view doc,
               double low, double high, Need need = {}) {
  Setting s{.key = key, .type = ValueType::kNumber, .default_value = value};
  s.unit = unit;
  s.doc = doc;
  s.low = low;
  s.high = high;
  s.need = std::move(need);
  return s;
}

Setting choice(std::string_view key, std::string_view value, std::string_view doc,
               std::vector<std::string_view> choices, Need need = {}) {
  Setting s{.key = key, .type = ValueType::kText, .default_value = std::string(value)};
  s.doc = doc;
  s.choices = std::move(choices);
  s.need = std::move(need);
  return s;
}

Setting text(std::string_view key, std::string_view doc, Need need = {}) {
  Setting s{.key = key, .type = ValueType::kText, .doc = doc};
  s.need = std::move(need);
  return s;
}

std::vector<Setting> data_settings() {
  const Need streams{"data.streaming", {"true"}};
  std::vector<Setting> table;
  table.push_back(choice("data.source", "local", "Where data.paths lie", {"local"}));
  Setting paths{.key = "data.paths", .type = ValueType::kPaths};
  paths.doc =
      "Files, globs or shard directories, in the order of the cells; relative to the "
      "folder where the program runs";
  table.push_back(paths);
  table.push_back(flag("data.shards.enabled", false, "Train from shards instead of data.paths"));
  table.push_back(text("data.shards.shard_dir", "The shards, as `cellfeed shard` wrote them",
                       {"data.shards.enabled", {"true"}}));
  table.push_back(flag("data.streaming", false, "Read the files in order, through a buffer"));
  table.push_back(whole("data.streaming_chunk_size", std::int64_t{10000}, "cells",
                        "Cells that are read together", 1, kMaxCount, streams));
  table.push_back(whole("data.streaming_shuffle_buffer", std::int64_t{10000}, "cells",
                        "Cells among which the order is random; 0 for the order of the files", 0,
                        kMaxCount, streams));
  table.push_back(text("data.cloud.cache_dir", "Folder of the cache"));
  table.push_back(choice("data.cloud.cache", "files",
                         "What is cached there: whole files of buckets; the blocks of 1 MiB that "
                         "are read of them; or, for training, the rows that are read of "
                         "compressed files, local ones too",
                         {"files", "blocks", "rows"}));
  table.push_back(text("data.cloud.cache_bytes",
                       "What whole files and blocks there may hold in all, such as 200GB; what was "
                       "used longest ago goes first. No limit where it is not given"));
  table.push_back(choice("data.gene_selection.strategy", "all", "Which genes of a batch are kept",
                         {"all", "most_expressed", "random_expressed"}));
  table.push_back(whole("data.gene_selection.n_genes", {}, "genes", "How many of them, a batch", 1,
                        kMaxInt32,
                        {"data.gene_selection.strategy", {"most_expressed", "random_expressed"}}));
  table.push_back(
      flag("data.preprocessing.normalize", true, "Scale each cell to target_sum counts"));
  table.push_back(number("data.preprocessing.target_sum", 1e4, "counts per cell",
                         "The sum of a cell's values once they are normalised", 1e-30, 1e30,
                         {"data.preprocessing.normalize", {"true"}}));
  table.push_back(flag("data.preprocessing.log_transform", true, "log(1 + value), natural"));
  table.push_back(choice("data.preprocessing.hvg_flavor", "seurat",
                         "How highly variable genes are found, as in scanpy",
                         {"seurat", "seurat_v3", "cell_ranger"}));
  table.push_back(whole("data.preprocessing.n_top_genes", {}, "genes",
                        "Keep this many highly variable genes; all genes where it is not given", 1,
                        kMaxInt32));
  table.push_back(text("data.vocab.path", "A gene vocabulary, as GeneVocab.save wrote it"));
  table.push_back(whole("data.vocab.n_genes", {}, "genes",
                        "Or: keep this many genes, those that most cells have", 1, kMaxInt32));
  return table;
}

void add_split_settings(std::vector<Setting>& table) {
  table.push_back(number("data.split.val", 0.1, "share of the cells",
                         "For validation after each epoch; 0: none", 0, 0.9));
  table.push_back(
      number("data.split.test", 0, "share of the cells", "Kept for the test at the end", 0, 0.9));
  table.push_back(
      text("data.split.by", "An obs column such as donor: cells of one label are of one part"));
  table.push_back(
      text("data.split.column", "Instead of shares: the obs column that says train, val or test"));
  table.push_back(
      whole("data.split.seed", std::int64_t{0}, "", "Another seed divides otherwise", 0));
}

void add_model_settings(std::vector<Setting>& table) {
  table.push_back(choice("tokenizer.strategy", "rank_value", "How a cell becomes tokens",
                         {"rank_value", "binned", "continuous"}));
  table.push_back(whole("tokenizer.max_length", std::int64_t{2048},
                        "tokens, the class token among them", "A cell has this many at most", 2,
                        1 << 20));
  table.push_back(choice("model.architecture", "transformer_encoder", "The kind of model",
                         {"transformer_encoder", "mlp"}));
  table.push_back(whole("model.d_model", std::int64_t{512}, "", "Width of the model", 1, 65536));
  table.push_back(whole("model.n_layers", std::int64_t{6}, "", "Depth of the model", 1, 1000));
  table.push_back(whole("model.n_heads", std::int64_t{8}, "",
                        "Attention heads; d_model is a multiple of it", 1, 65536,
                        {"model.architecture", {"transformer_encoder"}}));
  table.push_back(number("model.dropout", 0, "share", "Of activations, while training", 0, 0.9));
}

void add_objective_settings(std::vector<Setting>& table) {
  table.push_back(choice("training.objective", "auto",
                         "What is learned; auto: classification where label_key is given",
                         {"auto", "classification", "masked_genes", "both"}));
  table.push_back(text("training.label_key", "The obs column that a classifier predicts"));
  table.push_back(number("training.mask_fraction", 0.15, "share of the tokens",
                         "Hidden from the model, which predicts them", 0.001, 0.9));
  table.push_back(
      number("training.learning_rate", 1e-3, "", "The highest, after warm-up", 1e-12, 10));
  table.push_back(number("training.weight_decay", 0.01, "", "Of AdamW", 0, 10));
  table.push_back(number("training.warmup_ratio", 0.05, "share of the steps",
                         "Over which the rate rises; it then falls as a cosine", 0, 1));
  table.push_back(number("training.gradient_clip_val", 1, "",
                         "Gradients are scaled down to this norm; 0: never", 0, 1e6));
  table.push_back(whole("training.early_stopping_patience", std::int64_t{0}, "epochs",
                        "Stop after so many without a lower validation loss; 0: never", 0,
                        kMaxInt32));
  table.push_back(whole("training.checkpoint_every_n_steps", std::int64_t{1000}, "steps",
                        "Besides the end of each epoch; 0: only there", 0, kMaxInt32));
  table.push_back(whole("training.log_every_n_steps", std::int64_t{50}, "steps",
                        "Between rows of metrics.csv", 1, kMaxInt32));
  table.push_back(flag("training.tensorboard", false, "Also write logs for TensorBoard"));
  table.push_back(whole("training.seed", std::int64_t{0}, "",
                        "Of first weights, the order of cells, masks and dropout", 0));
}

void add_training_settings(std::vector<Setting>& table) {
  const Need weighs{"training.sampling.strategy", {"weighted"}};
  const Need shards{"training.fsdp.enabled", {"true"}};
  table.push_back(whole("training.batch_size", std::int64_t{64}, "cells",
                        "Cells of a batch, on each device", 1, kMaxInt32));
  table.push_back(whole("training.num_epochs", std::int64_t{10}, "epochs",
                        "Times that all cells are seen", 1, kMaxInt32));
  table.push_back(whole("training.num_workers", std::int64_t{0}, "processes",
                        "Worker processes; none are needed, threads read", 0, 1024));
  table.push_back(
      whole("training.num_devices", std::int64_t{1}, "devices", "Devices of each node", 1, 65536));
  table.push_back(whole("training.num_nodes", std::int64_t{1}, "nodes", "Machines", 1, 65536));
  table.push_back(
      flag("training.pin_memory", true, "Batches in page-locked memory, where there is a GPU"));
  table.push_back(choice("training.precision", "32-true", "Of the model's arithmetic",
                         {"32-true", "bf16-mixed", "16-mixed", "bf16-true", "16-true", "64-true"}));
  table.push_back(whole("training.accumulate_grad_batches", std::int64_t{1}, "batches",
                        "Batches whose gradients are added before a step", 1, kMaxInt32));
  table.push_back(choice("training.strategy", "auto",
                         "How devices share the work; auto: fsdp where it is enabled, else ddp",
                         {"auto", "ddp", "fsdp"}));
  table.push_back(choice("training.sampling.strategy", "random",
                         "Which cells are drawn; weighted: rare labels as often as common ones",
                         {"random", "weighted"}));
  table.push_back(text("training.sampling.label_key", "The obs column with the labels", weighs));
  table.push_back(whole("training.sampling.curriculum_warmup_epochs", std::int64_t{0}, "epochs",
                        "Epochs from uniform to weighted sampling", 0, kMaxInt32, weighs));
  table.push_back(flag("training.fsdp.enabled", false,
                       "Share out parameters over devices (fully sharded data parallel)"));
  table.push_back(choice("training.fsdp.sharding_strategy", "FULL_SHARD", "What is shared out",
                         {"FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD"}, shards));
  table.push_back(flag("training.fsdp.cpu_offload", false,
                       "Keep parameters in the memory of the host", shards));
}

std::vector<Setting> make_table() {
  std::vector<Setting> table = data_settings();
  add_split_settings(table);
  add_model_settings(table);
  add_training_settings(table);
  add_objective_settings(table);
  return table;
}

void append_unique(std::vector<std::string>& names, std::string_view name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.emplace_back(name);
}

std::string joined_with_or(const std::vector<std::string_view>& choices) {
  if (choices.size() == 1) return std::string(choices[0]);
  return fmt::format("{} or {}", fmt::join(std::span(choices).first(choices.size() - 1), ", "),
                     choices.back());
}

}  // namespace

std::span<const Setting> settings() {
  static const std::vector<Setting> kTable = make_table();
  return kTable;
}

const Setting* find_setting(std::string_view key) {
  for (const Setting& setting : settings())
    if (setting.key == key) return &setting;
  return nullptr;
}

std::string_view section_of(std::string_view key) {
  const auto dot = key.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : key.substr(0, dot);
}

std::string_view name_of(std::string_view key) { return key.substr(key.rfind('.') + 1); }

std::vector<std::string> names_in(std::string_view section) {
  std::vector<std::string> names;
  const std::string prefix = section.empty() ? "" : fmt::format("{}.", section);
  for (const Setting& setting : settings())
    if (setting.key.starts_with(prefix)) {
      const std::string_view rest = setting.key.substr(prefix.size());
      append_unique(names, rest.substr(0, rest.find('.')));
    }
  return names;
}

bool is_section(std::string_view key) {
  return find_setting(key) == nullptr && !names_in(key).empty();
}

std::string describe_values(const Setting& setting) {
  std::string what;
  switch (setting.type) {
    case ValueType::kBool:
      return "true or false";
    case ValueType::kPaths:
      return "a list of paths";
    case ValueType::kText:
      return setting.choices.empty() ? "text" : joined_with_or(setting.choices);
    case ValueType::kInteger:
      what = setting.high >= kMaxCount
                 ? fmt::format("a whole number of at least {:.0f}", setting.low)
                 : fmt::format("a whole number from {:.0f} to {:.0f}", setting.low, setting.high);
      break;
    case ValueType::kNumber:
      what = fmt::format("a number from {:g} to {:g}", setting.low, setting.high);
      break;
  }
  return setting.unit.empty() ? what : fmt::format("{} ({})", what, setting.unit);
}

std::string value_text(const Value& value) {
  struct Text {
    std::string operator()(std::monostate) const { return "not given"; }
    std::string operator()(bool b) const { return b ? "true" : "false"; }
    std::string operator()(std::int64_t n) const { return fmt::format("{}", n); }
    std::string operator()(double x) const {
      const bool is_whole =
          x == static_cast<double>(static_cast<std::int64_t>(std::clamp(x, -kMaxWhole, kMaxWhole)));
      return is_whole ? fmt::format("{:.0f}", x) : fmt::format("{}", x);
    }
    std::string operator()(const std::string& s) const { return s; }
    std::string operator()(const Paths& paths) const {
      return fmt::format("[{}]", fmt::join(paths, ", "));
    }
  };
  return std::visit(Text(), value);
}

}  // namespace cellfeed::config
