// Following paths: hard links by address, soft links by their own path, and out of the file only
// where that is allowed.
#include "cellfeed/hdf5/path_walk.h"

#include <algorithm>
#include <array>
#include <map>

#include "cellfeed/hdf5/elsewhere.h"
#include "cellfeed/hdf5/group_links.h"

namespace cellfeed::hdf5 {
namespace {

constexpr int kMaxLinks = 16;  // soft ones, on one path, as libhdf5 has it

}  // namespace

void PathWalk::add_steps(Walker& walker, std::string_view path) const {
  std::vector<std::string> steps;
  while (!path.empty()) {
    const std::size_t slash = std::min(path.find('/'), path.size());
    const std::string_view name = path.substr(0, slash);
    if (!name.empty() && name != ".") steps.emplace_back(name);
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  walker.steps.insert(walker.steps.begin(), steps.begin(), steps.end());
}

std::vector<std::optional<Object>> PathWalk::find(std::span<const std::string> paths) {
  std::vector<Walker> walkers;
  for (const std::string& path : paths) {
    Walker& walker = walkers.emplace_back();
    walker.file = file_;
    walker.at = path.starts_with('/') ? file_->nodes(std::array{file_->root()}).front() : start_;
    walker.path = start_path_.empty() || path.starts_with('/') ? path : start_path_ + "/" + path;
    add_steps(walker, path);
  }
  while (true) {
    fetch_links(walkers);
    for (Walker& walker : walkers)
      if (walker.at != nullptr && !walker.steps.empty()) step(walker);
    arrive(walkers);
    if (std::ranges::all_of(walkers, [](const Walker& walker) {
          return walker.at == nullptr || walker.steps.empty();
        }))
      break;
  }
  std::vector<std::optional<Object>> objects;
  for (Walker& walker : walkers) {
    auto& object = objects.emplace_back();
    if (walker.at != nullptr) object = Object(walker.file, walker.at, walker.path);
  }
  return objects;
}

void PathWalk::arrive(std::span<Walker> walkers) const {
  std::map<const FileState*, std::vector<Address>> addresses;
  for (const Walker& walker : walkers)
    if (walker.next != kUndefinedAddress) addresses[walker.file.get()].push_back(walker.next);
  for (const auto& [file, wanted] : addresses) {
    const auto nodes = file->nodes(wanted);
    auto node = nodes.begin();
    for (Walker& walker : walkers)
      if (walker.file.get() == file && walker.next != kUndefinedAddress) {
        walker.at = *node++;
        walker.next = kUndefinedAddress;
      }
  }
}

void PathWalk::fetch_links(std::span<const Walker> walkers) const {
  std::vector<const ObjectHeader*> headers;
  for (const Walker& walker : walkers)
    if (walker.at != nullptr && !walker.steps.empty() && walker.file == file_)
      headers.push_back(&walker.at->header());
  std::sort(headers.begin(), headers.end());
  headers.erase(std::unique(headers.begin(), headers.end()), headers.end());
  if (headers.size() > 1) fetch_group_links(file_->bytes(), headers);
}

void PathWalk::step(Walker& walker) const {
  if (!is_group(walker.at->header())) {
    walker.at = nullptr;
    return;
  }
  const std::string name = std::move(walker.steps.front());
  walker.steps.pop_front();
  const std::vector<Link>& links = walker.at->links(walker.file->bytes());
  const auto link =
      std::lower_bound(links.begin(), links.end(), name,
                       [](const Link& a, const std::string& wanted) { return a.name < wanted; });
  if (link == links.end() || link->name != name)
    walker.at = nullptr;
  else
    follow(walker, *link);
}

void PathWalk::follow(Walker& walker, const Link& link) const {
  switch (link.kind) {
    case LinkKind::kHard:
      walker.next = link.address;
      if (link.address == kUndefinedAddress)
        throw_error(ErrorKind::kCorruptData, walker.file->bytes().path(),
                    "damaged HDF5 file: the address of '{}' is undefined", walker.path);
      return;
    case LinkKind::kSoft:
      count_link(walker);
      if (link.target.starts_with('/')) walker.next = walker.file->root();
      add_steps(walker, link.target);
      return;
    case LinkKind::kExternal:
    case LinkKind::kUserDefined:
      refuse_link(walker, link);
  }
}

void PathWalk::count_link(Walker& walker) const {
  if (++walker.n_links > kMaxLinks)
    throw_error(ErrorKind::kCorruptData, walker.file->bytes().path(),
                "'{}' leads through more than {} links, or in a circle of them", walker.path,
                kMaxLinks);
}

void PathWalk::refuse_link(const Walker& walker, const Link& link) const {
  if (link.kind == LinkKind::kUserDefined)
    throw_error(ErrorKind::kUnsupported, walker.file->bytes().path(),
                "'{}' leads through a link of a kind that only its writer knows; write the data "
                "again without it (adata.write_h5ad)",
                walker.path);
  throw_elsewhere(walker.file->bytes().path(), walker.path, "is a link to",
                  link.file + ":" + link.target);
}

}  // namespace cellfeed::hdf5
