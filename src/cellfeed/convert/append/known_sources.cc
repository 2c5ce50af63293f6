#include "cellfeed/convert/append/known_sources.h"

#include <arrow/api.h>

#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "cellfeed/base/argument_text.h"
#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/file_names.h"
#include "cellfeed/format/shard/obs/obs_schema.h"
#include "cellfeed/format/shard/obs/shard_obs.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::convert {
namespace {

namespace fs = std::filesystem;
namespace shard = format::shard;

bool is_shard_file(const std::string& path) {
  return shard::generation_of(fs::path(path).filename().string()).has_value();
}

std::uint64_t fingerprint_of_all(const shard::SourceEntry& source) {
  return source.whole_fingerprint.value_or(source.fingerprint);
}

class KnownSources {
 public:
  explicit KnownSources(const ShardBase& base) : base_(base) {
    bool has_shards = false;
    for (const shard::SourceEntry& source : base.manifest.sources) {
      by_content_.emplace(fingerprint_of_all(source), source.path);
      by_path_.insert(io::canonical(source.path));
      has_shards = has_shards || is_shard_file(source.path);
    }
    if (has_shards) read_origins();
  }

  // The name under which the shards know what a source holds.
  std::optional<std::string> name_of(std::uint64_t content) const {
    const auto found = by_content_.find(content);
    return found == by_content_.end() ? std::nullopt : std::optional(found->second);
  }
  bool has_path(const std::string& path) const { return by_path_.contains(io::canonical(path)); }
  bool has_origin(const std::string& path) const { return origins_.contains(io::canonical(path)); }

 private:
  // The files that cells came from by way of other shards.
  void read_origins() {
    for (const shard::ShardEntry& entry : base_.manifest.shards) {
      const auto files =
          shard::ShardObs(base_.directory, entry).column(shard::kSourceFileColumn).categories;
      const auto& names = static_cast<const arrow::StringArray&>(*files);
      for (std::int64_t i = 0; i < names.length(); ++i)
        origins_.insert(io::canonical(names.GetString(i)));
    }
  }

  const ShardBase& base_;
  std::map<std::uint64_t, std::string> by_content_;
  std::set<std::string> by_path_, origins_;
};

// A file, or the directory of a shard.
std::string name_of_source(const format::RowStore& store) {
  const std::string& path = store.info().path;
  return store.info().format == "shard" ? fs::path(path).parent_path().string() : path;
}

// How the shards hold the cells of a source already; empty where they do not.
std::string how_known(const KnownSources& known, const format::RowStore& store) {
  if (const auto name = known.name_of(store.whole_fingerprint()))
    return fmt::format("from '{}'", *name);
  return known.has_origin(store.info().path) ? "by way of other shards" : "";
}

// The same of the sources that the manifest of other shards names.
std::string how_known_by_sources(const KnownSources& known, const std::string& dir) {
  for (const auto& source : shard::read_manifest(dir).sources) {
    if (const auto name = known.name_of(fingerprint_of_all(source)))
      return fmt::format("by '{}'", *name);
    if (known.has_origin(source.path)) return "by way of other shards";
  }
  return "";
}

}  // namespace

std::vector<std::string> look_for_known_sources(const ShardBase& base, const Sources& sources,
                                                bool is_forced) {
  std::vector<std::string> warnings;
  const KnownSources known(base);
  std::set<std::string> said;                      // of each directory once
  std::map<std::string, std::string> by_manifest;  // how_known_by_sources of each directory
  for (std::int64_t s = 0; s < sources.n_sources(); ++s) {
    const format::RowStore& store = sources.store(s);
    const std::string& path = store.info().path;
    const std::string name = name_of_source(store);
    if (said.contains(name)) continue;
    std::string how = how_known(known, store);
    if (how.empty() && name != path) {
      const auto [found, is_new] = by_manifest.try_emplace(name);
      if (is_new) found->second = how_known_by_sources(known, name);
      how = found->second;
    }
    if (!how.empty()) {
      said.insert(name);
      if (!is_forced)
        throw_error(
            ErrorKind::kAlreadyExists, path,
            "cells of it are in '{}' already, {}, and may be there twice then; append it all "
            "the same with {}",
            base.dir(), how, argument("force", "true"));
      warnings.push_back(fmt::format("{}: cells of it are there twice now, {}", path, how));
    } else if (known.has_path(path)) {
      said.insert(name);
      warnings.push_back(fmt::format(
          "{}: a file of this name was written to the shards before, and held something else: if "
          "it holds the same cells as well, they are there twice now",
          path));
    }
  }
  return warnings;
}

}  // namespace cellfeed::convert
