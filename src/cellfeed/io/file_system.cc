#include "cellfeed/io/file_system.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <mutex>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/base/fork_safe_mutex.h"
#include "cellfeed/io/local_file_system.h"

namespace cellfeed::io {
namespace {

constexpr std::string_view kSchemeEnd = "://";

bool is_scheme_text(std::string_view text) {
  return text.size() > 1 && std::all_of(text.begin(), text.end(), [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0;
         });
}

// Empty for a local path.
std::string_view scheme_of(std::string_view path) {
  const auto end = path.find(kSchemeEnd);
  if (end == std::string_view::npos || !is_scheme_text(path.substr(0, end))) return {};
  return path.substr(0, end);
}

// Deeper ones are links that lead round.
constexpr int kMostDepth = 64;

void visit_below(const FileSystem& files, const std::string& folder, const std::string& prefix,
                 int depth, const FileVisitor& visit) {
  if (depth > kMostDepth)
    throw_error(ErrorKind::kUnsupported, folder, "is too deep a folder to be listed");
  const auto directory = files.open_directory(folder);
  for (const std::string& name : directory->names()) {
    const std::string path = directory->path_of(name);
    const PathStatus status = files.status(path);
    if (status.is_directory()) visit_below(files, path, prefix + name + "/", depth + 1, visit);
    if (status.is_file()) visit(prefix + name, status);
  }
}

struct Schemes {
  ForkSafeMutex mutex;  // guards known
  std::map<std::string, std::shared_ptr<const FileSystem>, std::less<>> known;
};

// Files may be closed while the process ends.
Schemes& schemes() {
  static auto* all = new Schemes;
  return *all;
}

std::string known_schemes() {
  std::string text = "local paths";
  for (const auto& [scheme, file_system] : schemes().known)
    text += fmt::format(", {}{}", scheme, kSchemeEnd);
  return text;
}

}  // namespace

void FileSystem::visit_files(const std::string& folder, const FileVisitor& visit) const {
  if (status(folder).is_directory()) visit_below(*this, folder, "", 0, visit);
}

bool is_local(std::string_view path) { return scheme_of(path).empty(); }

const FileSystem& file_system_of(const std::string& path) {
  const std::string_view scheme = scheme_of(path);
  if (scheme.empty()) return local_file_system();
  const std::scoped_lock lock(schemes().mutex);
  const auto found = schemes().known.find(scheme);
  if (found != schemes().known.end()) return *found->second;
  if (scheme == "file")
    throw_error(ErrorKind::kUnsupported, path,
                "files of a local disk are named by their path alone: leave out the scheme");
  throw_error(ErrorKind::kUnsupported, path,
              "no file system is known for this path; copy the file to a local disk and give its "
              "path (known: {})",
              known_schemes());
}

void register_scheme(const std::string& scheme, std::shared_ptr<const FileSystem> file_system) {
  if (!is_scheme_text(scheme)) throw_invalid("no scheme of paths: '{}'", scheme);
  const std::scoped_lock lock(schemes().mutex);
  if (!schemes().known.try_emplace(scheme, std::move(file_system)).second)
    throw_invalid("the scheme has a file system already: '{}'", scheme);
}

FileSystemRegistration::FileSystemRegistration(std::string scheme,
                                               std::shared_ptr<const FileSystem> file_system)
    : scheme_(std::move(scheme)) {
  register_scheme(scheme_, std::move(file_system));
}

FileSystemRegistration::~FileSystemRegistration() {
  const std::scoped_lock lock(schemes().mutex);
  schemes().known.erase(scheme_);
}

PathStatus status_of(const std::string& path) { return file_system_of(path).status(path); }

bool exists(const std::string& path) { return status_of(path).is_there(); }

bool is_directory(const std::string& path) { return status_of(path).is_directory(); }

std::unique_ptr<ByteSource> open_file(const std::string& path, const LocalFileOptions& options) {
  return file_system_of(path).open(path, options);
}

void make_directories(const std::string& path) { file_system_of(path).make_directories(path); }

void remove(const std::string& path) { file_system_of(path).remove(path); }

std::string canonical(const std::string& path) { return file_system_of(path).canonical(path); }

Directory scratch_directory(const Directory& directory) {
  if (directory.is_local()) return directory;
  return Directory(std::filesystem::temp_directory_path().string());
}

}  // namespace cellfeed::io
