// The manifest: what is written is read, and nothing that a hostile one says is believed.
#include "cellfeed/format/shard/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include "cellfeed/base/error.h"

namespace cellfeed::format::shard {
namespace {

using ::testing::HasSubstr;

ShardEntry make_shard(std::int64_t shard, std::int64_t first_cell, std::int64_t n_cells,
                      std::int64_t nnz) {
  const std::string stem = fmt::format("shard_{:06d}", shard);
  ShardEntry entry;
  entry.shard = shard;
  entry.first_cell = first_cell;
  entry.n_cells = n_cells;
  entry.nnz = nnz;
  entry.matrix = {stem + ".cells", 1, 2};
  entry.obs = {stem + ".parquet", 3, 4};
  entry.fixed_obs = {stem + ".arrow", 500, 6};
  return entry;
}

Manifest make_manifest() {
  Manifest manifest;
  manifest.n_cells = 30;
  manifest.n_genes = 5;
  manifest.nnz = 70;
  manifest.value_dtype = DType::kI32;
  manifest.gene_order = GeneOrder::kMean;
  manifest.processing_json = R"({"normalize_total":10000.0})";
  manifest.genes = {"genes.parquet", 100, 1};
  manifest.shards = {make_shard(0, 0, 10, 30), make_shard(1, 10, 20, 40)};
  manifest.sources = {{"a \"quoted\" path\xff.h5ad", "X", ~0ull, 30}};
  return manifest;
}

// Two cells in three came later.
Manifest make_appended() {
  Manifest manifest = make_manifest();
  manifest.shards[1].has_own_library_sizes = true;
  manifest.sources.push_back({"b.h5ad", "X", 7, 20, 8});
  manifest.appends = {{.first_cell = 10,
                       .n_sources = 1,
                       .is_shuffled = true,
                       .selection_json = R"({"cells_of":40})"}};
  return manifest;
}

// A manifest with `from` replaced by `to` and a checksum that fits, as someone hostile would write
// it.
std::string forge(const std::string& from, const std::string& to,
                  const Manifest& manifest = make_manifest()) {
  std::string text = manifest_to_json(manifest);
  const auto at = text.find(from);
  if (at == std::string::npos) throw std::runtime_error("nothing to forge: " + from);
  text.replace(at, from.size(), to);
  const std::size_t digits = text.size() - 20;
  text.replace(digits, 16, 16, '0');
  text.replace(digits, 16, fmt::format("{:016x}", XXH3_64bits(text.data(), text.size())));
  return text;
}

std::string read_error(const std::string& text) {
  try {
    manifest_from_json(text, "dir");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Manifest, ReadsWhatWasWritten) {
  const std::string text = manifest_to_json(make_manifest());
  const Manifest read = manifest_from_json(text, "dir");
  EXPECT_EQ(manifest_to_json(read), text);
  EXPECT_EQ(read.shards[1].first_cell, 10);
  EXPECT_EQ(read.shards[1].fixed_obs.name, "shard_000001.arrow");
  EXPECT_EQ(read.sources[0].fingerprint, ~0ull);
  EXPECT_EQ(read.gene_order, GeneOrder::kMean);
}

TEST(Manifest, KnowsWhatWasAppended) {
  const std::string text = manifest_to_json(make_appended());
  const Manifest read = manifest_from_json(text, "dir");
  EXPECT_EQ(manifest_to_json(read), text);
  ASSERT_EQ(read.appends.size(), 1u);
  EXPECT_EQ(n_cells_of_append(read, 0), 20);
  EXPECT_TRUE(read.appends[0].is_shuffled);
  EXPECT_EQ(read.appends[0].selection_json, R"({"cells_of":40})");
  EXPECT_EQ(read.sources[1].whole_fingerprint, 8u);
  EXPECT_FALSE(read.sources[0].whole_fingerprint);
  EXPECT_FALSE(keeps_library_sizes(read, read.shards[0]));
  EXPECT_TRUE(keeps_library_sizes(read, read.shards[1]));
  Manifest before = make_manifest();
  before.shards.pop_back();
  sum_up(before);
  EXPECT_EQ(manifest_to_json(without_last_append(read)), manifest_to_json(before));
  EXPECT_EQ(manifest_to_json(make_manifest()).find("appends"), std::string::npos);
}

TEST(Manifest, RefusesAppendsOfOtherShardsOrSources) {
  const std::string of_append = R"("first_cell": 10,
      "n_sources": 1)";
  for (const char* other : {R"("first_cell": 0,
      "n_sources": 1)",
                            R"("first_cell": 11,
      "n_sources": 1)",
                            R"("first_cell": 30,
      "n_sources": 1)",
                            R"("first_cell": 10,
      "n_sources": 0)",
                            R"("first_cell": 10,
      "n_sources": 2)",
                            R"("first_cell": 10,
      "n_sources": 1125899906842624)"})
    EXPECT_THAT(read_error(forge(of_append, other, make_appended())),
                HasSubstr("its shards and sources are others"))
        << other;
  EXPECT_THAT(read_error(forge(R"("shuffled": true)", R"("shuffled": 1)", make_appended())),
              HasSubstr("shuffled"));
  EXPECT_THAT(read_error(forge(R"({
        "cells_of": 40
      })",
                               "7", make_appended())),
              HasSubstr("selection"));
}

TEST(Manifest, AcceptsAForgeryThatChangesNothing) {
  EXPECT_EQ(read_error(forge("cells", "cells")), "no error");
}

TEST(Manifest, RefusesNamesOutsideTheDirectory) {
  for (const char* name :
       {"../x", "/etc/passwd", "a/b", "", ".", "..", ".hidden", "a\\\\b", "a\\u0000b"})
    EXPECT_THAT(read_error(forge("\"shard_000001.cells\"", '"' + std::string(name) + '"')),
                HasSubstr("plain name"))
        << name;
}

TEST(Manifest, RefusesCountsThatDoNotFit) {
  EXPECT_THAT(read_error(forge("\"n_cells\": 30", "\"n_cells\": 31")), HasSubstr("totals"));
  EXPECT_THAT(read_error(forge("\"first_cell\": 10", "\"first_cell\": 11")),
              HasSubstr("begins at cell"));
  EXPECT_THAT(read_error(forge("\"n_shards\": 2", "\"n_shards\": 3")), HasSubstr("n_shards"));
  EXPECT_THAT(read_error(forge("\"n_genes\": 5", "\"n_genes\": -5")), HasSubstr("whole number"));
  EXPECT_THAT(read_error(forge("\"n_genes\": 5", "\"n_genes\": 18446744073709551615")),
              HasSubstr("whole number"));
  EXPECT_THAT(read_error(forge("\"shard_000001.arrow\"", "\"shard_000000.arrow\"")),
              HasSubstr("twice"));
}

TEST(Manifest, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(read_error(forge("\"version\": 7", "\"version\": 8")), HasSubstr("update cellfeed"));
  EXPECT_THAT(read_error(forge("\"version\": 7", "\"version\": 6")), HasSubstr("convert the"));
  EXPECT_THAT(read_error(forge("\"library_sizes\": false", "\"library_sizes\": 1")),
              HasSubstr("true or false"));
  EXPECT_THAT(read_error(forge("\"packed\"", "\"zipped\"")), HasSubstr("layout"));
  EXPECT_THAT(read_error(forge("\"int32\"", "\"int33\"")), HasSubstr("dtype"));
  EXPECT_THAT(read_error(forge("\"mean\"", "\"median\"")), HasSubstr("gene_order"));
  EXPECT_THAT(read_error(forge("cellfeed-shards", "another-format")), HasSubstr("another-format"));
}

TEST(Manifest, RefusesSumsThatDoNotFit) {
  Manifest manifest = make_manifest();
  constexpr std::int64_t kMany = std::int64_t{1} << 50;
  const ShardEntry last = manifest.shards.back();
  // Their sum is that of one, modulo 2^64.
  for (int i = 0; i < 1 << 14; ++i) {
    ShardEntry& shard = manifest.shards.emplace_back(last);
    shard.shard += i + 1;
    shard.first_cell = manifest.n_cells;
    shard.n_cells = 0;
    shard.nnz = kMany;
    for (auto* file : {&shard.matrix, &shard.obs, &shard.fixed_obs})
      file->name = std::to_string(i) + file->name;
  }
  EXPECT_THAT(read_error(manifest_to_json(manifest)), HasSubstr("than there can be"));
}

TEST(Manifest, RefusesEveryFlippedBit) {
  const std::string text = manifest_to_json(make_manifest());
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string flipped = text;
    flipped[i] = static_cast<char>(flipped[i] ^ (1 << (i % 8)));
    EXPECT_NE(read_error(flipped), "no error") << "byte " << i;
  }
}

TEST(Manifest, RefusesEveryTruncation) {
  const std::string text = manifest_to_json(make_manifest());
  for (std::size_t size = 0; size < text.size(); ++size)
    EXPECT_NE(read_error(text.substr(0, size)), "no error") << size;
}

TEST(Manifest, RefusesDeepNesting) {
  EXPECT_THAT(read_error(forge("{\n    \"normalize_total\": 10000.0\n  }",
                               std::string(5000, '[') + std::string(5000, ']'))),
              HasSubstr("deep"));
}

TEST(GeneFingerprint, DependsOnNamesAndOrder) {
  EXPECT_EQ(gene_fingerprint({"a", "b"}), gene_fingerprint({"a", "b"}));
  EXPECT_NE(gene_fingerprint({"a", "b"}), gene_fingerprint({"b", "a"}));
  EXPECT_NE(gene_fingerprint({"ab"}), gene_fingerprint({"a", "b"}));
}

}  // namespace
}  // namespace cellfeed::format::shard
