#include <algorithm>
#include <array>
#include <filesystem>

#include "cellfeed/base/error.h"
#include "cellfeed/collection/paths.h"
#include "cellfeed/series/inputs.h"

namespace cellfeed::series {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 10> kSuffixes{".csv",   ".csv.gz", ".tsv",     ".tsv.gz",
                                                     ".txt",   ".txt.gz", ".parquet", ".feather",
                                                     ".arrow", ".ipc"};

bool is_data_file(const std::string& name) {
  return !name.starts_with(".") && !name.starts_with("_") &&
         std::ranges::any_of(kSuffixes, [&](auto suffix) { return name.ends_with(suffix); });
}

// Those of folders of folders as well, by name.
void add_folder(const fs::path& folder, std::vector<std::string>& files) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    entries.push_back(at->path());
  if (error) throw_errno(error.value(), folder.string(), "list this folder");
  std::ranges::sort(entries);
  for (const fs::path& entry : entries) {
    const std::string name = entry.filename().string();
    if (fs::is_directory(entry)) {
      if (!name.starts_with(".") && !name.starts_with("_")) add_folder(entry, files);
    } else if (is_data_file(name)) {
      files.push_back(entry.string());
    }
  }
}

}  // namespace

std::vector<std::string> input_files(const std::vector<std::string>& inputs) {
  std::vector<std::string> files;
  for (const std::string& path : collection::expand_paths(inputs)) {
    std::error_code error;
    if (!fs::exists(path, error)) throw Error(ErrorKind::kNotFound, "there is no such file", path);
    if (!fs::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    const std::size_t before = files.size();
    add_folder(path, files);
    if (files.size() == before)
      throw_error(ErrorKind::kNotFound, path, "holds no data file; these are: {}",
                  fmt::join(kSuffixes, ", "));
  }
  return collection::expand_paths(files);  // none twice
}

}  // namespace cellfeed::series
