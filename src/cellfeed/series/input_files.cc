#include <algorithm>
#include <array>

#include "cellfeed/base/error.h"
#include "cellfeed/collection/paths.h"
#include "cellfeed/io/directory.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/series/inputs.h"

namespace cellfeed::series {
namespace {

constexpr std::array<std::string_view, 10> kSuffixes{".csv",   ".csv.gz", ".tsv",     ".tsv.gz",
                                                     ".txt",   ".txt.gz", ".parquet", ".feather",
                                                     ".arrow", ".ipc"};

bool is_data_file(const std::string& name) {
  return !name.starts_with(".") && !name.starts_with("_") &&
         std::ranges::any_of(kSuffixes, [&](auto suffix) { return name.ends_with(suffix); });
}

// Those of folders of folders as well, by name.
void add_folder(const std::string& folder, std::vector<std::string>& files) {
  const io::Directory directory(folder);
  for (const std::string& name : directory.names()) {
    const std::string path = directory.path_of(name);
    if (io::is_directory(path)) {
      if (!name.starts_with(".") && !name.starts_with("_")) add_folder(path, files);
    } else if (is_data_file(name)) {
      files.push_back(path);
    }
  }
}

}  // namespace

std::vector<std::string> input_files(const std::vector<std::string>& inputs) {
  std::vector<std::string> files;
  for (const std::string& path : collection::expand_paths(inputs)) {
    if (!io::exists(path)) throw Error(ErrorKind::kNotFound, "there is no such file", path);
    if (!io::is_directory(path)) {
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
