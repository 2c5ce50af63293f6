#include "cellfeed/series/kept_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <span>
#include <string_view>

#include "cellfeed/format/shard/checksum.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::series {
namespace {

bool is_kept_file(std::string_view name) {
  return name == kPlanName || (name.starts_with("rows_") && name.ends_with(".bin"));
}

// Of this user alone: what lies there is believed.
io::OwnFolder own_temporary_folder(const io::Directory& temporary, const std::string& what) {
  const std::uint64_t hash = format::shard::checksum_bytes(std::as_bytes(std::span(what)));
  io::OwnFolder folder =
      io::OwnFolder::make(temporary, fmt::format("cellfeed-series-{}-{:016x}", ::geteuid(), hash),
                          is_kept_file, io::kForThisUser);
  folder.require_believable(::geteuid());
  return folder;
}

}  // namespace

std::string part_name(std::size_t part) { return fmt::format("rows_{:06}.bin", part); }

KeptFolder::KeptFolder(const io::Directory& directory, const std::string& name,
                       const std::string& what) {
  if (directory.is_local()) {
    folder_ = io::OwnFolder::make(directory, name, is_kept_file);
    shown_ = folder_->directory();
    return;
  }
  const std::string path = directory.path_of(name);
  io::make_directories(path);
  shown_ = io::Directory(path);
  folder_ = own_temporary_folder(io::scratch_directory(directory), what);
  lock_ = std::make_unique<io::DirectoryLock>(folder_->directory());
}

void KeptFolder::remove_kept() {
  folder_->empty();
  lock_.reset();
  folder_->remove();
}

void KeptFolder::remove() {
  remove_kept();
  if (!shown_.is_local()) io::remove(shown_.path());
}

}  // namespace cellfeed::series
