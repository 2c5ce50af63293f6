#include "cellfeed/format/shard/file_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <tuple>
#include <utility>

namespace cellfeed::format::shard {
namespace {

constexpr std::string_view kShard = "shard_";
constexpr std::string_view kGenes = "genes";
constexpr std::string_view kAnnotations = "annotations";
constexpr std::string_view kFirstPass = "first_pass";
// What all shards of a directory have in common, and how its name ends.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kCommon = {
    {{kGenes, ".parquet"}, {kAnnotations, ".h5"}, {kFirstPass, ".cbor"}}};
constexpr std::array<std::string_view, 4> kExtensions = {".cells", ".npy", ".parquet", ".arrow"};

std::string suffix(Generation generation) {
  return generation == 0 ? std::string() : fmt::format(".g{}", generation);
}

// Takes digits from the front; none, or one too many, is no number.
std::optional<std::int64_t> take_number(std::string_view& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || text.front() == '-') return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

}  // namespace

std::string shard_stem(std::int64_t shard, Generation generation) {
  return fmt::format("{}{:06d}{}", kShard, shard, suffix(generation));
}

std::string matrix_stem(std::int64_t shard, Generation generation, std::size_t matrix) {
  return shard_stem(shard, generation) + (matrix == 0 ? "" : fmt::format(".m{}", matrix));
}

std::string genes_name(Generation generation) {
  return fmt::format("{}{}.parquet", kGenes, suffix(generation));
}

std::string annotations_name(Generation generation) {
  return fmt::format("{}{}.h5", kAnnotations, suffix(generation));
}

std::string first_pass_name(Generation generation) {
  return fmt::format("{}{}.cbor", kFirstPass, suffix(generation));
}

// The next one still fits.
constexpr Generation kMaxGeneration = 1'000'000'000;

std::optional<Generation> generation_of(std::string_view file_name) {
  std::string_view rest = file_name;
  std::string stem;
  std::string_view extension;  // of what shards have in common
  if (rest.starts_with(kShard)) {
    rest.remove_prefix(kShard.size());
    const auto shard = take_number(rest);
    if (!shard) return std::nullopt;
    stem = shard_stem(*shard);
  } else {
    const auto common = std::ranges::find_if(
        kCommon, [&](const auto& name) { return rest.starts_with(name.first); });
    if (common == kCommon.end()) return std::nullopt;
    std::tie(stem, extension) = *common;
    rest.remove_prefix(stem.size());
  }
  Generation generation = 0;
  if (rest.starts_with(".g")) {
    rest.remove_prefix(2);
    const auto number = take_number(rest);
    if (!number || *number == 0 || *number > kMaxGeneration) return std::nullopt;
    generation = *number;
  }
  std::string matrix;
  const bool is_of_shard = extension.empty();
  if (is_of_shard && rest.starts_with(".m")) {
    rest.remove_prefix(2);
    const auto number = take_number(rest);
    if (!number || *number == 0) return std::nullopt;
    matrix = fmt::format(".m{}", *number);
  }
  const auto extensions = std::span(kExtensions).first(matrix.empty() ? kExtensions.size() : 2);
  const bool is_known =
      is_of_shard ? std::ranges::find(extensions, rest) != extensions.end() : rest == extension;
  // Numbers have one way of being written.
  if (!is_known || file_name != stem + suffix(generation) + matrix + std::string(rest))
    return std::nullopt;
  return generation;
}

}  // namespace cellfeed::format::shard
