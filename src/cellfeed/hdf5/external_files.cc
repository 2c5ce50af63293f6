#include "cellfeed/hdf5/external_files.h"

#include <algorithm>
#include <filesystem>
#include <mutex>

#include "cellfeed/base/error.h"
#include "cellfeed/base/path_text.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::hdf5 {
namespace {

namespace fs = std::filesystem;

// Each takes a descriptor.
constexpr std::size_t kMaxFiles = 64;

std::string resolve_folder(const std::string& folder) {
  require_path(folder);
  std::error_code error;
  const fs::path resolved = fs::canonical(folder, error);
  if (error) throw_errno(error.value(), folder, "open the folder of allow_external");
  if (!fs::is_directory(resolved, error))
    throw_error(ErrorKind::kInvalidArgument, folder,
                "allow_external must name a folder, and this is none");
  return resolved.string();
}

}  // namespace

ExternalFiles::ExternalFiles(const std::string& folder) : folder_(resolve_folder(folder)) {}

std::string ExternalFiles::find(const std::string& from, const std::string& named,
                                const std::string& what) const {
  std::error_code error;
  const bool is_name = !named.empty() && named.find('\0') == std::string::npos;
  const fs::path found =
      is_name ? fs::canonical(fs::path(from).parent_path() / named, error) : fs::path();
  if (!is_name || error)
    throw_error(ErrorKind::kNotFound, from, "{} '{}', which is not there: {}", what, named,
                is_name ? error.message() : "no name of a file");
  const auto relative = found.lexically_relative(folder_);
  if (relative.empty() || relative.begin()->string() == "..")
    throw_error(ErrorKind::kUnsupported, from,
                "{} '{}', which lies outside of the folder that allow_external names: '{}'", what,
                named, folder_);
  return found.string();
}

std::shared_ptr<const io::ByteSource> ExternalFiles::open(const std::string& from,
                                                          const std::string& named,
                                                          const std::string& what) const {
  const std::string path = find(from, named, what);
  {
    const std::scoped_lock lock(mutex_);
    if (const auto known = opened_.find(path); known != opened_.end()) return known->second;
    if (opened_.size() >= kMaxFiles)
      throw_error(ErrorKind::kUnsupported, from,
                  "leads to more than {} other files; write the data into one file "
                  "(adata.write_h5ad)",
                  kMaxFiles);
  }
  std::shared_ptr<const io::ByteSource> source = io::open_file(path);
  const std::scoped_lock lock(mutex_);
  return opened_.try_emplace(path, std::move(source)).first->second;
}

std::vector<std::shared_ptr<const io::ByteSource>> ExternalFiles::opened() const {
  const std::scoped_lock lock(mutex_);
  std::vector<std::shared_ptr<const io::ByteSource>> sources;
  for (const auto& [path, source] : opened_) sources.push_back(source);
  return sources;
}

void ExternalFiles::require_unchanged() const {
  for (const auto& source : opened()) io::require_unchanged(*source);
}

}  // namespace cellfeed::hdf5
