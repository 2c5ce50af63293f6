// cellfeed cache: what a folder of caches holds, whether it is whole, and room in it.
#include <fmt/chrono.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <variant>

#include "cellfeed/base/byte_size.h"
#include "cellfeed/base/error.h"
#include "cellfeed/base/wall_clock.h"
#include "cellfeed/cli/checks.h"
#include "cellfeed/cli/json_line.h"
#include "cellfeed/cli/options.h"
#include "cellfeed/cli/progress_line.h"
#include "cellfeed/cli/verbs.h"
#include "cellfeed/cloud/cache/folder_listing.h"
#include "cellfeed/cloud/cache/growing_copy.h"
#include "cellfeed/cloud/cache/kept_copies.h"
#include "cellfeed/cloud/storage_options.h"
#include "cellfeed/collection/paths.h"
#include "cellfeed/convert/cache/kept_rows.h"
#include "cellfeed/convert/cache/row_cache_place.h"
#include "cellfeed/exec/stop_scope.h"
#include "cellfeed/exec/thread_pool.h"
#include "cellfeed/io/cache_dir.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::cli {
namespace {

constexpr double kMostDays = 36500;
// Small objects, such as the chunks of zarr stores, wait for their store most of the time.
constexpr int kFetchesAtOnce = 16;

struct CacheVerbArguments {
  std::string dir;
  double older_than_days = 0;
  std::int64_t max_bytes = 0;
  bool is_dry = false;
};

struct CacheEntry {
  std::variant<cloud::KeptCopy, convert::KeptRows> kept;
  std::string kind, path, what;
  std::int64_t bytes = 0;
  std::int64_t used_ns = 0;
};

std::string folder_of(const CacheVerbArguments& arguments) {
  const std::string dir = io::chosen_cache_dir(arguments.dir);
  if (dir.empty()) throw_invalid("no folder: name one, as cache_dir did, or set CELLFEED_CACHE");
  // Nobody kept anything in the default folder yet.
  if (arguments.dir.empty() && !io::exists(dir)) return dir;
  if (!io::is_local(dir))
    throw_error(ErrorKind::kInvalidArgument, dir, "caches are in folders of a local disk");
  if (!io::is_directory(dir))
    throw_error(io::exists(dir) ? ErrorKind::kInvalidArgument : ErrorKind::kNotFound, dir,
                "is no folder");
  return dir;
}

// Those used longest ago first.
std::vector<CacheEntry> entries_of(const std::string& dir) {
  std::vector<CacheEntry> entries;
  if (!io::exists(dir)) return entries;
  const io::Directory directory(dir);
  for (cloud::KeptCopy& copy : cloud::kept_copies(directory)) {
    CacheEntry entry{.kept = {},
                     .kind = copy.is_blocks ? "blocks" : "copy",
                     .path = directory.path_of(copy.name),
                     .what = copy.of_object,
                     .bytes = copy.bytes,
                     .used_ns = copy.used_ns};
    entry.kept = std::move(copy);
    entries.push_back(std::move(entry));
  }
  for (convert::KeptRows& rows : convert::kept_rows(dir)) {
    const bool is_packed = rows.kind == convert::KeptRows::Kind::kPacked;
    CacheEntry entry{.kept = {},
                     .kind = is_packed ? "packed" : "rows",
                     .path = rows.folder,
                     .what = fmt::format("{} of {}", rows.matrix, rows.of_file),
                     .bytes = rows.bytes,
                     .used_ns = rows.written_ns};
    entry.kept = std::move(rows);
    entries.push_back(std::move(entry));
  }
  std::ranges::stable_sort(entries, {}, &CacheEntry::used_ns);
  return entries;
}

std::int64_t bytes_of_all(const std::vector<CacheEntry>& entries) {
  std::int64_t bytes = 0;
  for (const CacheEntry& entry : entries) bytes += entry.bytes;
  return bytes;
}

std::string time_text(std::int64_t ns) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                     fmt::gmtime(static_cast<std::time_t>(ns / 1'000'000'000)));
}

nlohmann::ordered_json to_json_entry(const CacheEntry& entry) {
  return {{"kind", entry.kind},
          {"what", entry.what},
          {"bytes", entry.bytes},
          {"used", time_text(entry.used_ns)},
          {"path", entry.path}};
}

nlohmann::ordered_json json_of(const std::string& dir, const std::vector<CacheEntry>& entries) {
  nlohmann::ordered_json json = {{"path", dir}, {"bytes", bytes_of_all(entries)}};
  json["entries"] = nlohmann::ordered_json::array();
  for (const CacheEntry& entry : entries) json["entries"].push_back(to_json_entry(entry));
  return json;
}

std::string line_of(const CacheEntry& entry) {
  return fmt::format("{:<7} {:>10}  {}  {}\n", entry.kind, format_byte_size(entry.bytes),
                     time_text(entry.used_ns), entry.what.empty() ? entry.path : entry.what);
}

std::string count_text(std::size_t n, std::int64_t bytes) {
  return fmt::format("{} {}, {}", n, n == 1 ? "entry" : "entries", format_byte_size(bytes));
}

int list_cache(const Session& session, const CacheVerbArguments& arguments) {
  const std::string dir = folder_of(arguments);
  const std::vector<CacheEntry> entries = entries_of(dir);
  if (session.json) {
    print(json_line(json_of(dir, entries)));
    return 0;
  }
  std::string text;
  for (const CacheEntry& entry : entries) text += line_of(entry);
  print(text + fmt::format("{} in {}\n", count_text(entries.size(), bytes_of_all(entries)), dir));
  return 0;
}

bool remove_entry(const std::string& dir, const CacheEntry& entry) {
  if (const auto* rows = std::get_if<convert::KeptRows>(&entry.kept))
    return convert::remove_kept(*rows);
  cloud::remove_copy(io::Directory(dir), std::get<cloud::KeptCopy>(entry.kept));
  return true;
}

// Why it stays; empty once it is gone.
std::string try_to_remove(const std::string& dir, const CacheEntry& entry) {
  try {
    return remove_entry(dir, entry) ? "" : "is written just now";
  } catch (const Error& error) {
    return error.what();
  }
}

int clear_cache(const Session& session, const CacheVerbArguments& arguments) {
  const std::string dir = folder_of(arguments);
  const double age_ns = std::min(arguments.older_than_days, kMostDays) * 86400e9;
  const std::int64_t latest = arguments.older_than_days > 0
                                  ? wall_clock_ns() - static_cast<std::int64_t>(age_ns)
                                  : std::numeric_limits<std::int64_t>::max();
  const std::vector<CacheEntry> entries = entries_of(dir);
  std::vector<CacheEntry> removed;
  nlohmann::ordered_json kept = nlohmann::ordered_json::array();
  std::int64_t left = bytes_of_all(entries);
  for (const CacheEntry& entry : entries) {
    if (entry.used_ns > latest || (arguments.max_bytes > 0 && left <= arguments.max_bytes))
      continue;
    if (entry.what.empty()) continue;  // nothing tells that it is ours
    if (const std::string why = arguments.is_dry ? "" : try_to_remove(dir, entry); !why.empty()) {
      kept.push_back({{"path", entry.path}, {"why", why}});
      std::fprintf(stderr, "cellfeed: error: %s: stays: %s\n", entry.path.c_str(), why.c_str());
      continue;
    }
    left -= entry.bytes;
    removed.push_back(entry);
  }
  if (!arguments.is_dry && io::exists(dir)) {
    cloud::remove_unfinished(io::Directory(dir));
    if (left == 0) cloud::remove_listings(io::Directory(dir));
  }
  if (session.json) {
    nlohmann::ordered_json json = json_of(dir, removed);
    json["removed"] = !arguments.is_dry;
    json["left_bytes"] = left;
    json["kept"] = kept;
    print(json_line(json));
  } else {
    std::string text;
    for (const CacheEntry& entry : removed) text += line_of(entry);
    print(text + fmt::format("{} {}; {} left in {}\n",
                             count_text(removed.size(), bytes_of_all(removed)),
                             arguments.is_dry ? "would be removed" : "removed",
                             format_byte_size(left), dir));
  }
  return kept.empty() ? 0 : 1;
}

std::vector<std::string> damages_of_entry(const std::string& dir, const CacheEntry& entry) {
  const auto look = [](std::int64_t, std::int64_t) { exec::throw_if_stopped(); };
  try {
    if (const auto* rows = std::get_if<convert::KeptRows>(&entry.kept))
      return convert::damages_of(*rows, look);
    const std::string damage =
        cloud::damage_of(io::Directory(dir), std::get<cloud::KeptCopy>(entry.kept), look);
    return damage.empty() ? std::vector<std::string>{} : std::vector{damage};
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kCancelled) throw;
    return {error.what()};  // what cannot be read is as bad as what is damaged
  }
}

int verify_cache(const Session& session, const CacheVerbArguments& arguments) {
  const std::string dir = folder_of(arguments);
  const std::vector<CacheEntry> entries = entries_of(dir);
  const std::int64_t bytes = bytes_of_all(entries);
  nlohmann::ordered_json damages = nlohmann::ordered_json::array();
  std::string text;
  {
    ProgressLine line(session.quiet, "bytes");
    convert::ProgressMeter clock({}, "verifying", 0);
    std::int64_t done = 0;
    for (const CacheEntry& entry : entries) {
      for (const std::string& what : damages_of_entry(dir, entry)) {
        damages.push_back({{"path", entry.path}, {"what", what}});
        text += fmt::format("damaged: {}: {}\n", entry.path, what);
      }
      done += entry.bytes;
      const double seconds = clock.seconds();
      line.show({"verifying", done, bytes, seconds > 0 ? static_cast<double>(done) / seconds : 0});
    }
  }
  if (session.json) {
    print(json_line(
        {{"path", dir}, {"ok", damages.empty()}, {"bytes", bytes}, {"damages", damages}}));
  } else if (damages.empty()) {
    print(fmt::format("every byte is as written: {} in {}\n", count_text(entries.size(), bytes),
                      dir));
  } else {
    print(text);
    std::fprintf(stderr,
                 "cellfeed: error: %s: delete what is damaged; it is made anew when it is "
                 "read next\n",
                 dir.c_str());
  }
  return damages.empty() ? 0 : 1;
}

struct CacheFetchArguments {
  std::string dir;
  std::vector<std::string> paths;
};

cloud::FolderListing list_all(const std::string& folder) {
  cloud::FolderListing listing{cloud::parse_bucket_path(folder).text(), true, {}};
  io::file_system_of(folder).visit_files(
      folder, [&](std::string_view name, const io::PathStatus&) { listing.names.emplace(name); });
  return listing;
}

// What a pattern is compared with; empty for a path that is none.
std::optional<cloud::FolderListing> listing_of_pattern(const std::string& path) {
  const auto wildcard = path.find_first_of("*?[");
  if (wildcard == std::string::npos) return std::nullopt;
  const std::string folder = path.substr(0, path.rfind('/', wildcard));
  if (path.find('/', wildcard) != std::string::npos) return list_all(folder);
  const std::vector<std::string> names = io::Directory(folder).names();
  return cloud::FolderListing{
      cloud::parse_bucket_path(folder).text(), false, {names.begin(), names.end()}};
}

// The path, or what lies below it, which is noted.
std::vector<std::string> objects_of(const std::string& path, const std::string& dir) {
  if (io::is_local(path))
    throw_error(ErrorKind::kInvalidArgument, path,
                "is a local path: files of buckets and servers are cached");
  const io::PathStatus status = io::status_of(path);
  if (status.is_file()) return {path};
  std::vector<std::string> objects;
  if (status.is_directory()) {
    const cloud::FolderListing listing = list_all(path);
    for (const std::string& name : listing.names)
      objects.push_back(fmt::format("{}/{}", listing.folder, name));
    cloud::write_listing(io::Directory(dir), listing);
  }
  if (objects.empty()) throw_error(ErrorKind::kNotFound, path, "nothing is there");
  return objects;
}

int fetch_into_cache(const Session& session, const CacheFetchArguments& arguments) {
  const std::string dir = io::chosen_cache_dir(arguments.dir);
  if (dir.empty()) throw_invalid("no folder: give --cache-dir, or set CELLFEED_CACHE");
  for (const std::string& path : arguments.paths)
    if (!io::is_local(path)) cloud::add_storage_option(path, cloud::kOfflineOption, "false");
  cloud::cache_in(dir, arguments.paths);
  const std::vector<std::string> paths = collection::expand_paths(arguments.paths);
  io::make_directories(dir);
  for (const std::string& path : arguments.paths)
    if (const auto listing = io::is_local(path) ? std::nullopt : listing_of_pattern(path))
      cloud::write_listing(io::Directory(dir), *listing);
  std::vector<std::string> objects;
  for (const std::string& path : paths)
    for (std::string& object : objects_of(path, dir)) objects.push_back(std::move(object));
  std::atomic<std::int64_t> bytes{0};
  exec::shared_pool(kFetchesAtOnce)->parallel_for(std::ssize(objects), [&](std::int64_t i) {
    exec::throw_if_stopped();
    bytes += io::open_file(objects[static_cast<std::size_t>(i)])->size();
  });
  if (session.json)
    print(json_line({{"path", dir}, {"files", objects.size()}, {"bytes", bytes.load()}}));
  else
    print(fmt::format("{} {}, {} in {}\n", objects.size(), objects.size() == 1 ? "file" : "files",
                      format_byte_size(bytes), dir));
  return 0;
}

using RunOnCache = int (*)(const Session& session, const CacheVerbArguments& arguments);

CLI::App& add_cache_verb(CLI::App& cache, Session& session,
                         const std::shared_ptr<CacheVerbArguments>& arguments,
                         const std::string& name, const std::string& help, RunOnCache run) {
  CLI::App& verb = *cache.add_subcommand(name, help);
  verb.add_option("dir", arguments->dir,
                  "What cache_dir named [default: CELLFEED_CACHE, else ~/.cache/cellfeed]")
      ->type_name("DIR");
  add_output_options(verb, session);
  verb.callback([&session, arguments, run] {
    session.run = [&session, arguments, run] { return run(session, *arguments); };
  });
  return verb;
}

}  // namespace

void add_cache(CLI::App& program, Session& session) {
  auto arguments = std::make_shared<CacheVerbArguments>();
  CLI::App& cache = *program.add_subcommand(
      "cache",
      "List, clear, verify or fill the cache of files: copies, blocks, packed rows, sorted rows");
  cache.require_subcommand(1);
  add_cache_verb(cache, session, arguments, "list",
                 "What a folder keeps, what was used longest ago first", list_cache);
  CLI::App& clear = add_cache_verb(cache, session, arguments, "clear",
                                   "Remove all of it, or what was used longest ago", clear_cache);
  clear
      .add_option("--older-than", arguments->older_than_days,
                  "Only what was last used more than so many days ago")
      ->check(positive_number())
      ->type_name("DAYS");
  add_size_option(
      clear, "--max-bytes",
      [arguments](std::int64_t bytes) {
        if (bytes < 1) throw_invalid("must be above 0; without it all goes");
        arguments->max_bytes = bytes;
      },
      "Only until no more than this is left, such as 200GB");
  clear.add_flag("--dry-run", arguments->is_dry, "Say what would be removed, and remove nothing");
  auto fetch_arguments = std::make_shared<CacheFetchArguments>();
  CLI::App& fetch = *cache.add_subcommand(
      "fetch", "Copy files of buckets and servers into the cache, for machines without a network");
  fetch.add_option("paths", fetch_arguments->paths, "Files, globs or folders: s3://bucket/*.h5ad")
      ->required()
      ->type_name("PATH");
  fetch
      .add_option("--cache-dir", fetch_arguments->dir,
                  "Folder of the copies [default: what CELLFEED_CACHE names, else "
                  "~/.cache/cellfeed]")
      ->type_name("DIR");
  add_output_options(fetch, session);
  fetch.callback([&session, fetch_arguments] {
    session.run = [&session, fetch_arguments] {
      return fetch_into_cache(session, *fetch_arguments);
    };
  });
  add_cache_verb(cache, session, arguments, "verify",
                 "Check every byte that is kept; exit code 1 when any is damaged", verify_cache);
}

}  // namespace cellfeed::cli
