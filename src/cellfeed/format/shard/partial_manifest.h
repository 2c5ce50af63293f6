// PartialManifest: the journal of a conversion under way, shard_metadata.partial.jsonl: the plan on
// the first line, then one line per finished shard. It is what makes --resume give the bytes of an
// undisturbed run.
//
// Protocol: lock the directory; start() or resume(); write the genes; for every shard not in
// finished(): write it with ShardWriter, then add(); commit(). A kill at any moment leaves a
// journal whose shards are whole (a torn last line is dropped), files that the journal does not
// know (written again), or a finished manifest (resume says so). Shards that are rewritten get a
// generation of their own, as have those that are appended: the manifest and its files stay until
// commit() puts the new manifest in its place, with one rename. Thread-safe: add() and finished().
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "cellfeed/base/argument_text.h"
#include "cellfeed/format/row_store.h"
#include "cellfeed/format/shard/file_names.h"
#include "cellfeed/format/shard/manifest.h"
#include "cellfeed/io/temp_file.h"

namespace cellfeed::format::shard {

inline constexpr const char* kPartialManifestName = "shard_metadata.partial.jsonl";

// What a manifest remembers of the plan it was made with.
std::uint64_t plan_fingerprint(const std::string& plan);

enum class DirectoryState { kEmpty, kOther, kUnfinished, kFinished };
// kEmpty: missing or without files; kOther: files, but neither manifest nor journal.
DirectoryState shard_directory_state(const std::string& dir);
// What a journal beside a manifest is of: shards that take the place of those that are there, or
// come behind them.
enum class JournalOf { kAllShards, kAppendedShards };
// The first line of a journal.
struct JournalHead {
  std::string plan;
  Generation generation = 0;
  JournalOf of = JournalOf::kAllShards;
};
// Empty without a journal, and where its first line is damaged.
std::optional<JournalHead> read_journal_head(const io::Directory& dir);
// What is being written beside finished shards: of a journal of another generation than theirs,
// unless the manifest is the one that it led to. Empty where nothing is.
std::optional<JournalHead> unfinished_beside_manifest(const io::Directory& dir);
// The least generation that no file of the directory has; 0 where it holds none.
Generation next_generation(const io::Directory& dir);
enum class Unfinished { kKeep, kDiscard };
// Removes from a bucket what a conversion that was stopped had sent of its files and no more than
// these. REQUIRES: the directory's lock.
io::UnfinishedUploads remove_unfinished_uploads(const io::Directory& dir);
// Removes what writers left beside finished shards: temporary files, files that were replaced, and,
// unless it is kept, what unfinished_beside_manifest() speaks of (all but its journal, which the
// next one replaces). REQUIRES: the directory's lock, and a manifest.
void remove_leftovers_of_writers(const io::Directory& dir, Unfinished unfinished);

// Where two texts part.
std::string first_difference(const std::string& before, const std::string& now);

struct ResumeOptions {
  // What to say of a plan that is not the one that began.
  std::function<std::string(const std::string& before, const std::string& now)>
      describe_difference = first_difference;
  std::string start_again = "with " + argument("overwrite", "true");  // how, for messages
  // Finished shards are compared with their checksums; called by one thread of `parallel` at a
  // time, with cells. What it throws stops it.
  std::function<void(std::int64_t done, std::int64_t total)> progress = {};
  ParallelFor parallel = run_serially;
};

class PartialManifest {
 public:
  // plan: text that decides every byte of the output (sources with fingerprints, shard size,
  // layout, gene order, ...). kRefuse throws kAlreadyExists when a manifest or a journal is there,
  // saying what to do; kReplace begins anew beside them.
  static PartialManifest start(const io::Directory& dir, const std::string& plan,
                               Generation generation = 0,
                               io::OnExisting on_existing = io::OnExisting::kRefuse,
                               JournalOf of = JournalOf::kAllShards);
  // Continues. Keeps shards of whose files every byte is as recorded; removes
  // temporary files. Throws kNotFound without a journal, kAlreadyExists when the conversion is
  // finished (compare the manifest's plan_fingerprint), kInvalidArgument when the plan differs
  // (naming where), kCancelled where progress does.
  static PartialManifest resume(const io::Directory& dir, const std::string& plan,
                                const ResumeOptions& options = {});
  ~PartialManifest();
  PartialManifest(PartialManifest&&) noexcept;

  Generation generation() const;
  std::map<std::int64_t, ShardEntry> finished() const;
  // Durable when it returns. Throws kNotFound when the directory is no longer at its path.
  void add(const ShardEntry& shard);
  // Looks at every file, writes the manifest with the finished shards, in order, and their sums;
  // then removes the journal and the files that were replaced. manifest: all but these shards,
  // n_cells, all nnz and plan_fingerprint; of an append with the shards that were there. Throws
  // kNotFound when a file is missing or has another size.
  Manifest commit(Manifest manifest);

 private:
  struct State;
  explicit PartialManifest(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace cellfeed::format::shard
