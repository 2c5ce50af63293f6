#include "cellfeed/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "cellfeed/config/config_text.h"

namespace cellfeed::config {
namespace {

using ::testing::HasSubstr;

Config parse(std::string_view text) { return Config::parse(text, "run.yaml"); }

std::string message_of(std::string_view text) {
  try {
    parse(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << error.what();
    return error.what();
  }
  return "no error";
}

TEST(Config, SettingsAreThoseOfTheFileAndElseDefaults) {
  const Config config = parse(
      "data:\n  paths: [a.h5ad, 'b c.h5ad']\n  streaming: true\ntraining:\n  batch_size: 256\n"
      "  precision: bf16-mixed\n");
  EXPECT_EQ(config.data_paths("to read"), (Paths{"a.h5ad", "b c.h5ad"}));
  EXPECT_TRUE(config.flag("data.streaming"));
  EXPECT_EQ(config.whole("training.batch_size"), 256);
  EXPECT_EQ(config.text("training.precision"), "bf16-mixed");
  EXPECT_EQ(config.whole("data.streaming_chunk_size"), 10000);
  EXPECT_FALSE(config.has_value("data.vocab.path"));
  EXPECT_TRUE(config.is_given("data.streaming"));
  EXPECT_FALSE(config.is_given("data.streaming_chunk_size"));
  EXPECT_FALSE(config.is_given("data.preprocessing"));
}

TEST(Config, AnUnknownKeyIsNamedWithItsPlaceAndTheNearestOne) {
  EXPECT_THAT(message_of("data:\n  streeming: true\n"),
              HasSubstr("run.yaml: line 2, column 3: data has no setting 'streeming'; did you mean "
                        "'streaming'?"));
  EXPECT_THAT(message_of("batch_size: 3\n"), HasSubstr("did you mean training.batch_size?"));
  EXPECT_THAT(message_of("data.source: local\n"), HasSubstr("no setting 'data.source'"));
  EXPECT_THAT(message_of("trainning: {batch_size: 1}\n"), HasSubstr("did you mean 'training'?"));
  EXPECT_THAT(message_of("data: {<<: 3}\n"), HasSubstr("no setting '<<'"));
}

TEST(Config, AValueOfAnotherTypeSaysWhatIsAllowedAndWhatWasMeant) {
  EXPECT_THAT(message_of("data: {streaming: yes}"),
              HasSubstr("true or false, not 'yes'; write true"));
  EXPECT_THAT(message_of("data: {streaming: \"true\"}"), HasSubstr("remove the quotes"));
  EXPECT_THAT(message_of("training: {batch_size: 1_000}"), HasSubstr("write it out: 1000"));
  EXPECT_THAT(message_of("training: {batch_size: 1e3}"), HasSubstr("write it out: 1000"));
  EXPECT_THAT(message_of("training: {batch_size: 010}"), HasSubstr("not '010'"));
  EXPECT_THAT(message_of("training: {batch_size: 0}"), HasSubstr("whole number from 1"));
  EXPECT_THAT(message_of("training: {batch_size: -5}"), HasSubstr("not '-5'"));
  EXPECT_THAT(message_of("training: {batch_size: 99999999999999999999}"),
              HasSubstr("whole number"));
  EXPECT_THAT(message_of("training: {batch_size: [3]}"), HasSubstr("not a list"));
  EXPECT_THAT(message_of("training: {batch_size: {a: 3}}"), HasSubstr("not a group of settings"));
  EXPECT_THAT(message_of("training: {batch_size:}"), HasSubstr("has no value"));
  EXPECT_THAT(message_of("training: {sampling: {strategy: wieghted}}"),
              HasSubstr("random or weighted, not 'wieghted'; did you mean weighted?"));
  EXPECT_THAT(message_of("data: {preprocessing: {target_sum: .nan}}"), HasSubstr("a number from"));
  EXPECT_THAT(message_of("data: {preprocessing: {target_sum: .inf}}"), HasSubstr("a number from"));
  EXPECT_THAT(message_of("data: {preprocessing: {target_sum: 0}}"), HasSubstr("a number from"));
  EXPECT_THAT(message_of("data: {paths: []}"), HasSubstr("not an empty list"));
  EXPECT_THAT(message_of("data: {paths: [a, '']}"), HasSubstr("one of them is"));
  EXPECT_THAT(message_of("data: local"), HasSubstr("data must be a group of settings"));
  EXPECT_EQ(
      parse("data: {preprocessing: {target_sum: 1e4}}").number("data.preprocessing.target_sum"),
      1e4);
  EXPECT_EQ(parse("data: {paths: a.h5ad}").data_paths("to read"), Paths{"a.h5ad"});
}

TEST(Config, SettingsThatContradictOneAnotherAreRefused) {
  EXPECT_THAT(message_of("data: {shards: {enabled: true}}"),
              HasSubstr("needs data.shards.shard_dir"));
  EXPECT_THAT(message_of("data: {streaming: true, shards: {enabled: true, shard_dir: s}}"),
              HasSubstr("contradicts data.shards.enabled"));
  const std::string no_log =
      "data:\n  preprocessing:\n    log_transform: false\n    n_top_genes: 5\n";
  EXPECT_THAT(message_of(no_log),
              HasSubstr("line 3, column 5: data.preprocessing.log_transform: false contradicts "
                        "data.preprocessing.n_top_genes: highly variable genes of flavor seurat"));
  EXPECT_THAT(message_of(no_log + "    hvg_flavor: cell_ranger\n"),
              HasSubstr("genes of flavor cell_ranger are found in log-transformed values"));
  EXPECT_THAT(message_of("tokenizer: {max_length: 1}"),
              HasSubstr("column 25: tokenizer.max_length must be a whole number from 2 to 1048576 "
                        "(tokens, the class token among them)"));
  EXPECT_THAT(message_of("data: {gene_selection: {strategy: most_expressed}}"),
              HasSubstr("needs data.gene_selection.n_genes"));
  EXPECT_THAT(message_of("data: {vocab: {path: a, n_genes: 3}}"), HasSubstr("one of the two"));
  EXPECT_THAT(message_of("model: {d_model: 10, n_heads: 3}"), HasSubstr("3 heads cannot share"));
  EXPECT_THAT(message_of("training: {sampling: {strategy: weighted}}"), HasSubstr("label_key"));
  EXPECT_THAT(message_of("data: {streaming: true}\n"
                         "training: {sampling: {strategy: weighted, label_key: kind}}"),
              HasSubstr("line 2, column 23: training.sampling.strategy: weighted contradicts"));
  EXPECT_THAT(message_of("data: {split: {val: 0}}\ntraining: {early_stopping_patience: 2}"),
              HasSubstr("watches the validation loss, and data.split.val is 0"));
  EXPECT_THAT(message_of("data: {split: {column: part, val: 0.2}}"),
              HasSubstr("contradicts data.split.column"));
  EXPECT_THAT(message_of("data: {split: {val: 0.5, test: 0.5}}"), HasSubstr("no cells to train"));
  EXPECT_THAT(message_of("training: {objective: both}"), HasSubstr("training.label_key"));
  EXPECT_THAT(message_of("model: {architecture: mlp}\ntraining: {objective: masked_genes}"),
              HasSubstr("needs model.architecture transformer_encoder"));
  EXPECT_THAT(message_of("training: {strategy: ddp, fsdp: {enabled: true}}"),
              HasSubstr("contradicts"));
  EXPECT_THAT(message_of("training: {strategy: fsdp, fsdp: {enabled: false}}"),
              HasSubstr("contradicts"));
  for (const char* precision : {"16-mixed", "64-true"})
    for (const char* how : {"strategy: fsdp", "fsdp: {enabled: true}"})
      EXPECT_THAT(message_of(fmt::format("training: {{precision: {}, {}}}", precision, how)),
                  HasSubstr("choose bf16-mixed"));
}

TEST(Config, GenesAreFoundInCountsOrInValuesThatMayBeLogarithmsAlready) {
  for (const char* rest : {"hvg_flavor: seurat_v3", "normalize: false"})
    EXPECT_FALSE(parse(fmt::format("data: {{preprocessing: {{log_transform: false, n_top_genes: 5, "
                                   "{}}}}}",
                                   rest))
                     .flag("data.preprocessing.log_transform"));
}

TEST(Config, ASettingThatNothingSwitchesOnIsRefused) {
  EXPECT_THAT(message_of("data: {streaming_chunk_size: 10}"),
              HasSubstr("has no effect while data.streaming is false"));
  EXPECT_THAT(message_of("data: {gene_selection: {n_genes: 10}}"), HasSubstr("most_expressed or"));
  EXPECT_THAT(message_of("training: {sampling: {label_key: cell_type}}"), HasSubstr("no effect"));
  EXPECT_THAT(message_of("training: {fsdp: {cpu_offload: true}}"), HasSubstr("no effect"));
  // Switched off by the file itself.
  EXPECT_FALSE(parse("data: {streaming: false, streaming_chunk_size: 10}").flag("data.streaming"));
  EXPECT_FALSE(
      parse("training: {fsdp: {enabled: false, cpu_offload: true}}").flag("training.fsdp.enabled"));
}

TEST(Config, HostileYamlIsRefusedAtOnce) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(message_of("data: &a {source: local}\n"), HasSubstr("anchors"));
  EXPECT_THAT(message_of("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"), HasSubstr("line 1"));
  EXPECT_THAT(message_of("data: !!map {source: local}\n"), HasSubstr("tag"));
  EXPECT_THAT(message_of("data: {source: !!python/object local}\n"), HasSubstr("tag"));
  EXPECT_THAT(message_of("data:\n  source: local\n  source: local\n"),
              HasSubstr("line 3, column 3: 'source' is there twice, first at line 2"));
  EXPECT_THAT(message_of("data:\n\tsource: local\n"), HasSubstr("line 2, column 1: a tab"));
  EXPECT_THAT(message_of("data:\n  paths: \xff\xfe\n"), HasSubstr("line 2, column 10: byte 0xff"));
  EXPECT_THAT(message_of("data:\n  paths: \xed\xa0\x80\n"), HasSubstr("not UTF-8"));
  EXPECT_THAT(message_of(std::string("data:\0 1", 8)), HasSubstr("control character"));
  EXPECT_THAT(message_of("data: {source: local}\n---\ndata: {source: local}\n"),
              HasSubstr("two documents"));
  EXPECT_THAT(message_of(""), HasSubstr("holds no settings"));
  EXPECT_THAT(message_of("# nothing\n"), HasSubstr("holds no settings"));
  EXPECT_THAT(message_of("data: {source: local"), HasSubstr("not YAML"));
  EXPECT_THAT(message_of("? [a]\n: 1\n"), HasSubstr("a key must be a name"));
  EXPECT_NE(message_of(std::string(500'000, '[')), "no error");
  EXPECT_NE(message_of(std::string(500'000, '{')), "no error");
  std::string nested;
  for (int i = 0; i < 100'000; ++i) nested += "- ";
  EXPECT_THAT(message_of(nested), HasSubstr("nested deeper"));
  std::string many;
  for (int i = 0; i < 60'000; ++i) many += fmt::format("k{}: 1\n", i);
  EXPECT_THAT(message_of(many), HasSubstr("more than 1000 keys"));
  EXPECT_THAT(message_of(std::string((1 << 20) + 1, ' ')), HasSubstr("more than a configuration"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

TEST(Config, PathsInBucketsAreTakenAsTheyAre) {
  for (const char* path : {"s3://b/a.h5ad", "gs://b/a", "gcs://b/a", "az://b/a", "abfs://b/a"})
    EXPECT_EQ(parse(fmt::format("data:\n  paths:\n    - a.h5ad\n    - {}\n", path))
                  .data_paths("to shard"),
              (Paths{"a.h5ad", path}));
}

TEST(ConfigText, WhatIsShownIsTheSameConfigurationWhenItIsReadAgain) {
  for (const char* text :
       {"data: {source: local}", "data: {paths: [\"a b\", 'x: \"y\"']}",
        "data: {streaming: true, streaming_chunk_size: 7, preprocessing: {target_sum: 0.125}}",
        "data: {preprocessing: {normalize: false}}",
        "training: {sampling: {strategy: weighted, label_key: 'null'}, fsdp: {enabled: true}}",
        "data: {vocab: {n_genes: 10}, gene_selection: {strategy: all}}"}) {
    const Config first = parse(text);
    const std::string shown = effective_settings_yaml(first);
    const Config again = parse(shown);
    for (const Setting& setting : settings()) {
      if (!first.is_used(setting)) continue;
      EXPECT_EQ(first.value(setting.key), again.value(setting.key)) << setting.key;
    }
    EXPECT_EQ(again.is_given("data.preprocessing"), first.is_given("data.preprocessing"));
  }
}

TEST(ConfigText, UnitsAndDefaultsAreShown) {
  const std::string shown = effective_settings_yaml(parse("training: {batch_size: 32}"));
  EXPECT_THAT(shown, HasSubstr("  batch_size: 32  # cells\n"));
  EXPECT_THAT(shown, HasSubstr("  num_epochs: 10  # default, epochs\n"));
  EXPECT_THAT(shown, HasSubstr("# streaming_chunk_size: no effect, data.streaming is false\n"));
}

TEST(Settings, EveryRowOfTheTableIsWhole) {
  for (const Setting& setting : settings()) {
    EXPECT_EQ(find_setting(setting.key), &setting) << setting.key;
    EXPECT_FALSE(setting.doc.empty()) << setting.key;
    EXPECT_FALSE(is_section(setting.key)) << setting.key;
    if (!setting.need.key.empty()) {
      const Setting* need = find_setting(setting.need.key);
      ASSERT_NE(need, nullptr) << setting.key;
      EXPECT_FALSE(setting.need.values.empty()) << setting.key;
    }
  }
}

}  // namespace
}  // namespace cellfeed::config
