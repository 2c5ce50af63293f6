// Names of the files of a shard directory. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cellfeed::format::shard {

// Every rewriting of a directory has a generation of its own, so that its files lie beside those
// they replace: 0 for the first, whose names are plain.
using Generation = std::int64_t;

// "shard_000007" for shard 7, "shard_000007.g2" in generation 2.
std::string shard_stem(std::int64_t shard, Generation generation = 0);
// The stem of its files of a matrix: that of the shard for the first, number 0; else
// "shard_000007.m1", "shard_000007.g2.m1".
std::string matrix_stem(std::int64_t shard, Generation generation, std::size_t matrix);
// "genes.parquet", "genes.g2.parquet".
std::string genes_name(Generation generation = 0);
// "annotations.h5", "annotations.g2.h5".
std::string annotations_name(Generation generation = 0);
// "first_pass.cbor", "first_pass.g2.cbor": there while several processes write, and in no manifest.
std::string first_pass_name(Generation generation = 0);
// Of a file that is named as one of a shard's or of all shards; empty for any other.
std::optional<Generation> generation_of(std::string_view file_name);

}  // namespace cellfeed::format::shard
