#include "cellfeed/format/shard/partial_manifest.h"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <sstream>

#include "cellfeed/base/argument_text.h"
#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/checksum.h"
#include "cellfeed/format/shard/manifest_json.h"
#include "cellfeed/format/shard/verify.h"
#include "cellfeed/io/atomic_file.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/io/link_note.h"
#include "cellfeed/io/small_file.h"

namespace cellfeed::format::shard {
namespace {

namespace fs = std::filesystem;

// Of the first line of a journal, true where shards are appended.
constexpr const char* kAppendKey = "append";

std::uint64_t hash_text(const std::string& text) {
  return checksum_bytes(std::as_bytes(std::span(text)));
}

// One line of the journal: its content and the checksum that tells a torn line from a whole one.
std::string to_line(const Json& content) {
  return Json{{"checksum", checksum_to_text(hash_text(content.dump()))}, {"content", content}}
             .dump() +
         "\n";
}

std::optional<Json> from_line(const std::string& line, const std::string& path) {
  try {
    const Json json = parse_json(line, path);
    const JsonReader read(json, path);
    if (read.text("checksum") == checksum_to_text(hash_text(read.at("content").dump())))
      return read.at("content");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorruptData) throw;  // torn or damaged: as if it were not there
  }
  return std::nullopt;
}

Json plan_line(const std::string& plan, Generation generation, JournalOf of) {
  Json line = {{"format", "cellfeed-shards-journal"},
               {"version", kManifestVersion},
               {"generation", generation},
               {"plan", plan}};
  if (of == JournalOf::kAppendedShards) line[kAppendKey] = true;
  return line;
}

// Empty without a manifest, and where it is damaged.
std::optional<Manifest> readable_manifest(const io::Directory& dir) {
  try {
    return read_manifest(dir.path());
  } catch (const Error& error) {
    if (error.was_not_read()) throw;
    return std::nullopt;
  }
}

std::set<std::string> names_of(const Manifest& manifest) {
  std::set<std::string> names;
  for (const FileEntry* file : common_files(manifest)) names.insert(file->name);
  for (const ShardEntry& shard : manifest.shards)
    for (const FileEntry* file : files_of(shard)) names.insert(file->name);
  return names;
}

// Files of other generations than the manifest's: those it replaced, or that were to replace its
// own.
void remove_other_generations(const io::Directory& dir, const Manifest& manifest) {
  const std::set<std::string> listed = names_of(manifest);
  const auto own = generation_of(manifest.genes.name);
  for (const std::string& name : dir.names()) {
    const auto generation = generation_of(name);
    if (generation && generation != own && !listed.contains(name)) dir.remove(name);
  }
}

void require_file(const io::Directory& dir, const FileEntry& file) {
  const auto bytes = dir.file_bytes(file.name);
  if (bytes == file.bytes) return;
  if (!bytes && !io::link_note(dir.path_of(file.name)).empty())
    throw_error(ErrorKind::kInvalidArgument, dir.path_of(file.name),
                "is a link, and rows are not appended through links: put a copy of the file there");
  throw_error(ErrorKind::kNotFound, dir.path_of(file.name),
              "the finished file was {} by another program while the others were written; run "
              "again with {}",
              bytes ? "changed" : "removed", argument("resume", "true"));
}

bool has_file(const io::Directory& dir, const FileEntry& file) {
  return dir.file_bytes(file.name) == file.bytes;
}

// The shards of the journal, up to a line that is torn; what follows was never acknowledged.
std::vector<ShardEntry> read_shards(std::istream& lines, const std::string& path) {
  std::vector<ShardEntry> shards;
  std::string line;
  while (std::getline(lines, line)) {
    const auto content = from_line(line, path);
    if (!content) break;
    shards.push_back(shard_from_json(*content, path));
  }
  return shards;
}

// Those of which every byte is as it was written; the others are written again.
std::vector<ShardEntry> whole_shards(const io::Directory& dir, std::vector<ShardEntry> shards,
                                     const ResumeOptions& options) {
  std::erase_if(shards, [&](const ShardEntry& shard) {
    return std::ranges::any_of(files_of(shard),
                               [&](const FileEntry* file) { return !has_file(dir, *file); });
  });
  const std::int64_t n_cells = std::accumulate(
      shards.begin(), shards.end(), std::int64_t{0},
      [](std::int64_t sum, const ShardEntry& shard) { return sum + shard.n_cells; });
  VerifyProgress progress;
  if (options.progress)
    progress = [&](std::int64_t done, std::int64_t total) {
      const double part = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 1;
      options.progress(static_cast<std::int64_t>(part * static_cast<double>(n_cells)), n_cells);
    };
  std::set<std::int64_t> damaged;
  for (const Damage& damage : verify_shards(dir.path(), shards, progress, options.parallel))
    damaged.insert(damage.shard);
  std::erase_if(shards, [&](const ShardEntry& shard) { return damaged.contains(shard.shard); });
  return shards;
}

void write_lines(const io::Directory& dir, const std::string& lines) {
  io::AtomicFile file(io::FileTarget(dir, kPartialManifestName), io::OnExisting::kReplace);
  file.append(std::as_bytes(std::span<const char>(lines)));
  file.commit();
}

}  // namespace

std::string first_difference(const std::string& before, const std::string& now) {
  const auto at = static_cast<std::size_t>(
      std::mismatch(before.begin(), before.end(), now.begin(), now.end()).first - before.begin());
  const std::size_t from = at < 30 ? 0 : at - 30;
  return fmt::format("it had '{}', now there is '{}'", before.substr(from, 80),
                     now.substr(from, 80));
}

std::uint64_t plan_fingerprint(const std::string& plan) { return hash_text(plan); }

DirectoryState shard_directory_state(const std::string& dir) {
  const io::PathStatus status = io::status_of(dir);
  if (!status.is_there()) return DirectoryState::kEmpty;
  if (!status.is_directory()) return DirectoryState::kOther;
  if (io::exists((fs::path(dir) / kManifestName).string())) return DirectoryState::kFinished;
  if (io::exists((fs::path(dir) / kPartialManifestName).string()))
    return DirectoryState::kUnfinished;
  for (const std::string& name : io::Directory(dir).names())
    if (!name.starts_with(".") && !io::is_temp_name(name)) return DirectoryState::kOther;
  return DirectoryState::kEmpty;
}

std::optional<JournalHead> read_journal_head(const io::Directory& dir) {
  if (!dir.file_bytes(kPartialManifestName)) return std::nullopt;
  const std::string path = dir.path_of(kPartialManifestName);
  std::istringstream lines(io::read_small_file(path, kMaxManifestBytes));
  std::string line;
  std::getline(lines, line);
  const auto head = from_line(line, path);
  if (!head || !head->contains("generation") || !head->contains("plan")) return std::nullopt;
  const JsonReader read(*head, path);
  return JournalHead{read.text("plan"), read.count("generation"),
                     head->contains(kAppendKey) && read.flag(kAppendKey)
                         ? JournalOf::kAppendedShards
                         : JournalOf::kAllShards};
}

std::optional<JournalHead> unfinished_beside_manifest(const io::Directory& dir) {
  auto journal = read_journal_head(dir);
  if (!journal || !dir.file_bytes(kManifestName)) return std::nullopt;
  const auto manifest = readable_manifest(dir);
  const bool has_led_to_it = journal->of == JournalOf::kAppendedShards && manifest &&
                             manifest->plan_fingerprint == plan_fingerprint(journal->plan);
  if (has_led_to_it ||
      journal->generation == (manifest ? generation_of(manifest->genes.name) : Generation{0}))
    return std::nullopt;
  return journal;
}

Generation next_generation(const io::Directory& dir) {
  Generation next = 0;
  for (const std::string& name : dir.names())
    if (const auto generation = generation_of(name)) next = std::max(next, *generation + 1);
  return next;
}

void remove_leftovers_of_writers(const io::Directory& dir, Unfinished unfinished) {
  io::remove_leftovers_in(dir);
  const bool is_unfinished = unfinished_beside_manifest(dir).has_value();
  if (is_unfinished && unfinished == Unfinished::kKeep) return;
  if (!is_unfinished) dir.remove(kPartialManifestName);
  if (const auto manifest = readable_manifest(dir)) remove_other_generations(dir, *manifest);
}

io::UnfinishedUploads remove_unfinished_uploads(const io::Directory& dir) {
  return (*dir).remove_unfinished_uploads([](std::string_view name) {
    return name == kManifestName || name == kPartialManifestName || generation_of(name);
  });
}

struct PartialManifest::State {
  io::Directory dir;
  std::string plan;
  Generation generation = 0;
  std::unique_ptr<io::Journal> journal;
  mutable std::mutex mutex;  // guards finished, and the journal once shards are written
  std::map<std::int64_t, ShardEntry> finished;
};

PartialManifest::PartialManifest(std::unique_ptr<State> state) : state_(std::move(state)) {}
PartialManifest::~PartialManifest() = default;
PartialManifest::PartialManifest(PartialManifest&&) noexcept = default;

PartialManifest PartialManifest::start(const io::Directory& dir, const std::string& plan,
                                       Generation generation, io::OnExisting on_existing,
                                       JournalOf of) {
  if (on_existing == io::OnExisting::kRefuse) {
    if (dir.file_bytes(kManifestName))
      throw_error(ErrorKind::kAlreadyExists, dir.path(),
                  "a finished shard directory: choose another, or remove it first");
    if (dir.file_bytes(kPartialManifestName))
      throw_error(ErrorKind::kAlreadyExists, dir.path(),
                  "an unfinished conversion: continue it with {}, or remove it first",
                  argument("resume", "true"));
  }
  auto state = std::make_unique<State>();
  state->dir = dir;
  state->plan = plan;
  state->generation = generation;
  write_lines(dir, to_line(plan_line(plan, generation, of)));
  state->journal = dir.append_to(kPartialManifestName);
  return PartialManifest(std::move(state));
}

PartialManifest PartialManifest::resume(const io::Directory& dir, const std::string& plan,
                                        const ResumeOptions& options) {
  const std::string path = dir.path_of(kPartialManifestName);
  if (dir.file_bytes(kManifestName) && !unfinished_beside_manifest(dir))
    throw_error(ErrorKind::kAlreadyExists, dir.path(),
                "nothing to resume: the shard directory is finished");
  if (!dir.file_bytes(kPartialManifestName))
    throw_error(ErrorKind::kNotFound, dir.path(), "nothing to resume: there is no {}",
                kPartialManifestName);
  std::istringstream file(io::read_small_file(path, kMaxManifestBytes));
  std::string line;
  std::getline(file, line);
  const auto first = from_line(line, path);
  if (!first)
    throw_error(ErrorKind::kCorruptData, path, "the journal is damaged: start again {}",
                options.start_again);
  const JsonReader head(*first, path);
  if (head.text("format") != "cellfeed-shards-journal" || head.count("version") != kManifestVersion)
    throw_error(ErrorKind::kUnsupported, path,
                "the journal of another version: resume with the cellfeed that began");
  if (head.text("plan") != plan)
    throw_error(ErrorKind::kInvalidArgument, dir.path(),
                "this is not the conversion that was interrupted: {}; resume with the same inputs "
                "and options, or start again {}",
                options.describe_difference(head.text("plan"), plan), options.start_again);
  auto state = std::make_unique<State>();
  state->dir = dir;
  state->plan = plan;
  state->generation = head.count("generation");
  std::string kept = to_line(*first);
  for (const ShardEntry& shard : whole_shards(dir, read_shards(file, path), options)) {
    state->finished[shard.shard] = shard;
    kept += to_line(shard_to_json(shard));
  }
  io::remove_leftovers_in(dir);
  write_lines(dir, kept);
  state->journal = dir.append_to(kPartialManifestName);
  return PartialManifest(std::move(state));
}

Generation PartialManifest::generation() const { return state_->generation; }

std::map<std::int64_t, ShardEntry> PartialManifest::finished() const {
  const std::lock_guard lock(state_->mutex);
  return state_->finished;
}

void PartialManifest::add(const ShardEntry& shard) {
  const std::string line = to_line(shard_to_json(shard));
  const std::lock_guard lock(state_->mutex);
  state_->dir.require_in_place();
  state_->journal->append(line);
  state_->finished[shard.shard] = shard;
}

Manifest PartialManifest::commit(Manifest manifest) {
  for (const auto& [number, shard] : finished()) manifest.shards.push_back(shard);
  sum_up(manifest);
  manifest.plan_fingerprint = plan_fingerprint(state_->plan);
  const io::Directory& dir = state_->dir;
  // What a reader would refuse is refused here.
  manifest_from_json(manifest_to_json(manifest), dir.path());
  for (const FileEntry* file : common_files(manifest)) require_file(dir, *file);
  for (const ShardEntry& shard : manifest.shards)
    for (const FileEntry* file : files_of(shard)) require_file(dir, *file);
  write_manifest(dir, manifest);
  try {
    dir.remove(kPartialManifestName);
    remove_other_generations(dir, manifest);
    dir.sync();
  } catch (const Error& error) {
    throw Error(error.kind(),
                fmt::format("{}; the shards are finished, and the next run with {} removes what is "
                            "left over",
                            error.what(), argument("resume", "true")));
  }
  return manifest;
}

}  // namespace cellfeed::format::shard
