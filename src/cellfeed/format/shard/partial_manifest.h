// PartialManifest: the journal of a conversion under way, shard_metadata.partial.jsonl: the plan on
// the first line, then one line per finished shard. It is what makes --resume give the bytes of an
// undisturbed run.
//
// Protocol: lock the directory; start() or resume(); write genes.parquet; for every shard not in
// finished(): write it with ShardWriter, then add(); commit(). A kill at any moment leaves a
// journal whose shards are whole (a torn last line is dropped), files that the journal does not
// know (written again), or a finished manifest (resume says so). Thread-safe: add() and finished().
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "cellfeed/format/shard/manifest.h"

namespace cellfeed::format::shard {

inline constexpr const char* kPartialManifestName = "shard_metadata.partial.jsonl";

// What a manifest remembers of the plan it was made with.
std::uint64_t plan_fingerprint(const std::string& plan);

enum class DirectoryState { kEmpty, kOther, kUnfinished, kFinished };
// kEmpty: missing or without files; kOther: files, but neither manifest nor journal.
DirectoryState shard_directory_state(const std::string& dir);

class PartialManifest {
 public:
  // plan: text that decides every byte of the output (sources with fingerprints, shard size,
  // layout, gene order, ...). Throws kAlreadyExists when a manifest or a journal is there, saying
  // what to do.
  static PartialManifest start(const std::string& dir, const std::string& plan);
  // Continues. Keeps shards whose three files are there with the bytes and header recorded; removes
  // temporary files. Throws kNotFound without a journal, kAlreadyExists when the conversion is
  // finished (compare the manifest's plan_fingerprint), kInvalidArgument when the plan differs
  // (naming where).
  static PartialManifest resume(const std::string& dir, const std::string& plan);
  ~PartialManifest();
  PartialManifest(PartialManifest&&) noexcept;

  std::map<std::int64_t, ShardEntry> finished() const;
  void add(const ShardEntry& shard);  // durable when it returns
  // Writes the manifest with the finished shards, in order, and their sums; then removes the
  // journal. manifest: all but shards, n_cells, nnz and plan_fingerprint.
  Manifest commit(Manifest manifest);

 private:
  struct State;
  explicit PartialManifest(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace cellfeed::format::shard
