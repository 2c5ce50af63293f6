#include "cellfeed/io/seen_files.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <mutex>
#include <span>
#include <thread>

#include "cellfeed/base/error.h"
#include "cellfeed/base/wall_clock.h"
#include "cellfeed/exec/thread_pool.h"

namespace cellfeed::io {
namespace {

constexpr int kLooksAtOnce = 16;

std::uint64_t hash_of(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

}  // namespace

bool FilesBelow::has(std::string_view name) const {
  if (std::ranges::find(names, name) != names.end()) return true;
  return std::ranges::any_of(folders, [&](const std::string& folder) {
    return name.size() > folder.size() && name.starts_with(folder) && name[folder.size()] == '/';
  });
}

SeenFiles::SeenFiles(std::string folder, FilesBelow which)
    : folder_(std::move(folder)), which_(std::move(which)), is_local_(is_local(folder_)) {}

std::shared_ptr<const SeenFiles> SeenFiles::look(std::string folder, FilesBelow which) {
  const std::shared_ptr<SeenFiles> seen(new SeenFiles(std::move(folder), std::move(which)));
  const std::int64_t first_ns = wall_clock_ns();
  const std::int64_t wait_ns = seen->look_at_all().any_ns + kSettledNs - first_ns;
  // ETags tell what times do not.
  if (wait_ns <= 0 || !seen->is_local_) return seen;
  // A time in the future is a wrong clock's, and no reason to wait for long.
  std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(wait_ns, kSettledNs)));
  const std::int64_t second_ns = wall_clock_ns();
  if (seen->look_at_all().past_ns + kSettledNs > second_ns)
    throw_error(ErrorKind::kCorruptData, seen->folder_,
                "the store was written to while it was opened; open it again once it is whole");
  return seen;
}

std::uint64_t SeenFiles::state_of(const PathStatus& status) const {
  const auto number = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  // The device of a local file is another one on another machine; of a remote one it is the ETag,
  // and its time may be told in another way by who lists it.
  const std::array<std::uint64_t, 5> all{
      number(status.size), is_local_ ? number(status.modified_ns) : 0,
      is_local_ ? number(status.changed_ns) : 0, status.inode, is_local_ ? 0 : status.device};
  return XXH3_64bits(all.data(), sizeof all);
}

SeenFiles::Newest SeenFiles::look_at_all() {
  const std::size_t n_names = which_.names.size();
  std::vector<std::vector<File>> found(n_names + which_.folders.size());
  std::vector<Newest> newest(found.size());
  const auto look = [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    const auto add = [&](std::string_view name, const PathStatus& status) {
      found[at].push_back({hash_of(name), state_of(status)});
      for (const std::int64_t ns : {status.modified_ns, status.changed_ns}) {
        newest[at].any_ns = std::max(newest[at].any_ns, ns);
        if (ns > newest[at].past_ns && ns <= wall_clock_ns()) newest[at].past_ns = ns;
      }
    };
    if (at < n_names) {
      const std::string& name = which_.names[at];
      if (const PathStatus status = status_of(folder_ + "/" + name); status.is_file())
        add(name, status);
      return;
    }
    const std::string& below = which_.folders[at - n_names];
    const std::string path = folder_ + "/" + below;
    std::string name = below + "/";
    file_system_of(path).visit_files(path, [&](std::string_view rest, const PathStatus& status) {
      name.resize(below.size() + 1);
      add(name.append(rest), status);
    });
  };
  const auto n = std::ssize(found);
  if (is_local_)
    for (std::int64_t i = 0; i < n; ++i) look(i);
  else
    exec::shared_pool(kLooksAtOnce)->parallel_for(n, look);
  files_.clear();
  for (const auto& part : found) files_.insert(files_.end(), part.begin(), part.end());
  std::ranges::sort(files_, std::less{});
  mark_ = XXH3_64bits(files_.data(), files_.size() * sizeof(File));
  Newest of_all;
  for (const Newest& part : newest) {
    of_all.any_ns = std::max(of_all.any_ns, part.any_ns);
    of_all.past_ns = std::max(of_all.past_ns, part.past_ns);
  }
  return of_all;
}

bool SeenFiles::compare(std::string_view name, const PathStatus& now) const {
  if (!which_.has(name)) return true;
  const std::uint64_t hash = hash_of(name);
  const auto at = std::ranges::lower_bound(files_, hash, {}, &File::name);
  const bool was_there = at != files_.end() && at->name == hash;
  if (was_there == now.is_file() && (!was_there || at->state == state_of(now))) return true;
  const std::lock_guard lock(mutex_);
  if (changed_.empty()) changed_ = name;
  return false;
}

std::string SeenFiles::changed() const {
  const std::lock_guard lock(mutex_);
  return changed_;
}

}  // namespace cellfeed::io
