#include "cellfeed/format/shard/partial_manifest.h"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <sstream>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/cells_file_layout.h"
#include "cellfeed/format/shard/manifest_json.h"
#include "cellfeed/io/atomic_file.h"
#include "cellfeed/io/local_file.h"

namespace cellfeed::format::shard {
namespace {

namespace fs = std::filesystem;

std::string journal_path(const std::string& dir) {
  return (fs::path(dir) / kPartialManifestName).string();
}

std::uint64_t hash_text(const std::string& text) { return XXH3_64bits(text.data(), text.size()); }

// One line of the journal: its content and the checksum that tells a torn line from a whole one.
std::string to_line(const Json& content) {
  return Json{{"checksum", checksum_to_text(hash_text(content.dump()))}, {"content", content}}
             .dump() +
         "\n";
}

std::optional<Json> from_line(const std::string& line) {
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("checksum") || !json.contains("content"))
    return std::nullopt;
  if (json["checksum"] != checksum_to_text(hash_text(json["content"].dump()))) return std::nullopt;
  return json["content"];
}

Json plan_line(const std::string& plan) {
  return {{"format", "cellfeed-shards-journal"}, {"version", kManifestVersion}, {"plan", plan}};
}

// Where two plans part, for the message.
std::string first_difference(const std::string& a, const std::string& b) {
  const auto at = static_cast<std::size_t>(
      std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  const std::size_t from = at < 30 ? 0 : at - 30;
  return fmt::format("it had '{}', now there is '{}'", a.substr(from, 80), b.substr(from, 80));
}

bool has_file(const std::string& dir, const FileEntry& file) {
  std::error_code error;
  return static_cast<std::int64_t>(fs::file_size(fs::path(dir) / file.name, error)) == file.bytes &&
         !error;
}

bool has_cells_header(const std::string& dir, const FileEntry& file) {
  try {
    const auto path = (fs::path(dir) / file.name).string();
    const auto source = io::open_local_file(path, {.access = io::FileAccess::kPread});
    std::vector<std::byte> bytes(static_cast<std::size_t>(std::min(source->size(), kHeaderBytes)));
    source->read(0, bytes);
    return parse_header(bytes, source->size(), path).checksum == file.checksum;
  } catch (const Error&) {
    return false;  // a damaged shard is written again
  }
}

bool is_whole(const std::string& dir, const ShardEntry& shard) {
  if (!has_file(dir, shard.matrix) || !has_file(dir, shard.obs) || !has_file(dir, shard.fixed_obs))
    return false;
  return !shard.matrix.name.ends_with(".cells") || has_cells_header(dir, shard.matrix);
}

void remove_temporary_files(const std::string& dir) {
  for (const auto& entry : fs::directory_iterator(dir))
    if (io::is_temp_name(entry.path().filename().string())) fs::remove(entry.path());
}

void write_lines(const std::string& path, const std::string& lines) {
  io::AtomicFile file(path, io::OnExisting::kReplace);
  file.append(std::as_bytes(std::span<const char>(lines)));
  file.commit();
}

}  // namespace

std::uint64_t plan_fingerprint(const std::string& plan) { return hash_text(plan); }

DirectoryState shard_directory_state(const std::string& dir) {
  std::error_code error;
  if (fs::exists(fs::path(dir) / kManifestName, error)) return DirectoryState::kFinished;
  if (fs::exists(journal_path(dir), error)) return DirectoryState::kUnfinished;
  if (!fs::exists(dir, error)) return DirectoryState::kEmpty;
  if (!fs::is_directory(dir, error)) return DirectoryState::kOther;
  const auto is_ours = [](const fs::path& path) {
    const std::string name = path.filename().string();
    return name.front() == '.' || io::is_temp_name(name);
  };
  for (const auto& entry : fs::directory_iterator(dir))
    if (!is_ours(entry.path())) return DirectoryState::kOther;
  return DirectoryState::kEmpty;
}

struct PartialManifest::State {
  ~State() {
    if (fd >= 0) ::close(fd);
  }

  void open_for_append() {
    const auto path = journal_path(dir);
    fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd < 0) throw_errno(errno, path, "open");
  }

  void append(const std::string& line) {
    std::size_t written = 0;
    while (written < line.size()) {
      const auto n = ::write(fd, line.data() + written, line.size() - written);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw_errno(errno, journal_path(dir), "write");
      written += static_cast<std::size_t>(n);
    }
    if (::fdatasync(fd) != 0) throw_errno(errno, journal_path(dir), "sync");
  }

  std::string dir;
  std::string plan;
  int fd = -1;
  mutable std::mutex mutex;
  std::map<std::int64_t, ShardEntry> finished;
};

PartialManifest::PartialManifest(std::unique_ptr<State> state) : state_(std::move(state)) {}
PartialManifest::~PartialManifest() = default;
PartialManifest::PartialManifest(PartialManifest&&) noexcept = default;

PartialManifest PartialManifest::start(const std::string& dir, const std::string& plan) {
  switch (shard_directory_state(dir)) {
    case DirectoryState::kFinished:
      throw_error(ErrorKind::kAlreadyExists, dir,
                  "a finished shard directory: choose another, or remove it first");
    case DirectoryState::kUnfinished:
      throw_error(ErrorKind::kAlreadyExists, dir,
                  "an unfinished conversion: continue it with --resume, or remove it first");
    default:
      break;
  }
  auto state = std::make_unique<State>();
  state->dir = dir;
  state->plan = plan;
  write_lines(journal_path(dir), to_line(plan_line(plan)));
  state->open_for_append();
  return PartialManifest(std::move(state));
}

PartialManifest PartialManifest::resume(const std::string& dir, const std::string& plan) {
  const std::string path = journal_path(dir);
  if (shard_directory_state(dir) == DirectoryState::kFinished)
    throw_error(ErrorKind::kAlreadyExists, dir,
                "nothing to resume: the shard directory is finished");
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw_error(ErrorKind::kNotFound, dir, "nothing to resume: there is no {}",
                kPartialManifestName);
  std::string line;
  std::getline(file, line);
  const auto first = from_line(line);
  if (!first)
    throw_error(ErrorKind::kCorruptData, path,
                "the journal is damaged: remove the directory and convert again");
  const JsonReader head(*first, path);
  if (head.text("format") != "cellfeed-shards-journal" || head.count("version") != kManifestVersion)
    throw_error(ErrorKind::kUnsupported, path,
                "the journal of another version: resume with the cellfeed that began");
  if (head.text("plan") != plan)
    throw_error(ErrorKind::kInvalidArgument, dir,
                "this is not the conversion that was interrupted: {}; resume with the same inputs "
                "and options, or remove the directory",
                first_difference(head.text("plan"), plan));
  auto state = std::make_unique<State>();
  state->dir = dir;
  state->plan = plan;
  std::string kept = to_line(*first);
  while (std::getline(file, line)) {
    const auto content = from_line(line);
    if (!content) break;  // torn; what follows was never acknowledged
    const ShardEntry shard = shard_from_json(*content, path);
    if (!is_whole(dir, shard)) continue;
    state->finished[shard.shard] = shard;
    kept += to_line(*content);
  }
  remove_temporary_files(dir);
  write_lines(path, kept);
  state->open_for_append();
  return PartialManifest(std::move(state));
}

std::map<std::int64_t, ShardEntry> PartialManifest::finished() const {
  const std::lock_guard lock(state_->mutex);
  return state_->finished;
}

void PartialManifest::add(const ShardEntry& shard) {
  const std::string line = to_line(shard_to_json(shard));
  const std::lock_guard lock(state_->mutex);
  state_->append(line);
  state_->finished[shard.shard] = shard;
}

Manifest PartialManifest::commit(Manifest manifest) {
  manifest.shards.clear();
  manifest.n_cells = 0;
  manifest.nnz = 0;
  for (const auto& [number, shard] : finished()) {
    manifest.shards.push_back(shard);
    manifest.n_cells += shard.n_cells;
    manifest.nnz += shard.nnz;
  }
  manifest.plan_fingerprint = plan_fingerprint(state_->plan);
  // What a reader would refuse is refused here.
  manifest_from_json(manifest_to_json(manifest), state_->dir);
  write_manifest(state_->dir, manifest);
  std::error_code ignored_because_the_manifest_outranks_the_journal;
  fs::remove(journal_path(state_->dir), ignored_because_the_manifest_outranks_the_journal);
  io::fsync_directory(state_->dir);
  return manifest;
}

}  // namespace cellfeed::format::shard
