// ConversionRun: a conversion into a directory that this process holds: begun or continued, its
// shards written here or by others, and finished with the manifest.
//
// Not thread-safe. Lifetime: the conversion outlives it; nobody else writes to the directory until
// it is destroyed.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cellfeed/convert/open_conversion.h"
#include "cellfeed/convert/target_directory.h"
#include "cellfeed/format/shard/partial_manifest.h"
#include "cellfeed/format/shard/verify.h"

namespace cellfeed::convert {

class ConversionRun {
 public:
  // Makes and locks the directory, looks at the shards that are finished, and writes what all
  // shards have in common. Throws what TargetDirectory throws, and kAlreadyExists where another
  // conversion was finished there.
  explicit ConversionRun(OpenConversion& conversion);

  // Of the journal.
  const std::string& plan() const { return plan_; }
  // All shards were finished by an earlier run, manifest and all.
  bool was_finished() const { return manifest_.has_value(); }
  // REQUIRES: !was_finished().
  const ShardTarget& target() const { return target_; }
  // Of OpenConversion's, counted from 0; ascending.
  std::vector<std::int64_t> missing_shards() const;
  // All of these, here.
  void write_missing();
  // One that was written elsewhere: lasting, once this returns. Throws kInvalidArgument for a
  // shard of another conversion.
  void add(const format::shard::ShardEntry& shard);
  // Of processes that died while they wrote shards of it. REQUIRES: no shard is missing.
  void remove_leftovers();
  // Throws kInvalidArgument naming one that is missing.
  void require_all_shards() const;
  // Writes the manifest. REQUIRES: no shard is missing.
  ConvertResult finish();

 private:
  format::shard::ResumeOptions resume_options();
  void require_same_conversion(const format::shard::Manifest& manifest) const;
  // Of shards that cells are appended to: whether all was done before.
  bool is_appended_before() const;
  void require_whole();
  std::vector<format::shard::Damage> find_damage();
  bool is_of_plan(const format::shard::ShardEntry& shard) const;
  void require_shards_of_plan() const;
  std::string text_of_rest() const;
  void note(const io::UnfinishedUploads& uploads);

  OpenConversion& conversion_;
  const ConvertOptions& options_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::string plan_;
  TargetDirectory directory_;
  ShardTarget target_;
  std::optional<format::shard::PartialManifest> journal_;  // none: all was finished before
  std::optional<format::shard::Manifest> manifest_;        // of what was finished before
  format::shard::FileEntry genes_;
  std::optional<format::shard::FileEntry> annotations_;
  std::int64_t n_resumed_ = 0;
  std::int64_t n_uploads_removed_ = 0;
  std::vector<std::string> warnings_;
  double cells_per_second_ = 0;
};

}  // namespace cellfeed::convert
