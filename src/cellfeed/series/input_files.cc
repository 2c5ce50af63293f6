#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <span>

#include "cellfeed/base/ascii_case.h"
#include "cellfeed/base/error.h"
#include "cellfeed/collection/paths.h"
#include "cellfeed/io/directory.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/series/inputs.h"
#include "cellfeed/series/metadata.h"

namespace cellfeed::series {
namespace {

constexpr std::array<std::string_view, 10> kSuffixes{".csv",   ".csv.gz", ".tsv",     ".tsv.gz",
                                                     ".txt",   ".txt.gz", ".parquet", ".feather",
                                                     ".arrow", ".ipc"};

bool is_data_file(const std::string& written) {
  const std::string name = lower(written);
  return !name.starts_with(".") && !name.starts_with("_") &&
         std::ranges::any_of(kSuffixes, [&](auto suffix) { return name.ends_with(suffix); });
}

// Whether what build_series made lies there, its format being named in the first lines.
bool holds_series(const io::Directory& directory, const std::vector<std::string>& names) {
  constexpr std::int64_t kFirstBytes = 256;
  if (std::ranges::find(names, kMetadataName) == names.end()) return false;
  const auto source = io::open_file(directory.path_of(kMetadataName),
                                    {.access = io::FileAccess::kPread, .threads = 1});
  std::string text(static_cast<std::size_t>(std::min(source->size(), kFirstBytes)), 0);
  source->read(0, std::as_writable_bytes(std::span(text)));
  return text.find("\"format\": \"cellfeed-series\"") != std::string::npos;
}

bool are_same(const std::string& a, const std::string& b) {
  if (a == b || !io::is_local(a) || !io::is_local(b)) return a == b;
  const io::PathStatus of_a = io::status_of(a), of_b = io::status_of(b);
  return of_a.inode != 0 && of_a.device == of_b.device && of_a.inode == of_b.inode;
}

// Those of folders of folders as well, by name, but for series and `output_dir`.
void add_folder(const std::string& folder, const std::string& output_dir,
                std::vector<std::string>& files) {
  const io::Directory directory(folder);
  const std::vector<std::string> names = directory.names();
  if (holds_series(directory, names)) return;
  for (const std::string& name : names) {
    const std::string path = directory.path_of(name);
    if (io::is_directory(path)) {
      if (!name.starts_with(".") && !name.starts_with("_") && !are_same(path, output_dir))
        add_folder(path, output_dir, files);
    } else if (is_data_file(name)) {
      files.push_back(path);
    }
  }
}

}  // namespace

std::vector<std::string> input_files(const std::vector<std::string>& inputs,
                                     const std::string& output_dir) {
  std::vector<std::string> files;
  for (const std::string& path : collection::expand_paths(inputs)) {
    if (!io::exists(path)) throw Error(ErrorKind::kNotFound, "there is no such file", path);
    if (!io::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    const std::size_t before = files.size();
    add_folder(path, output_dir, files);
    if (files.size() == before)
      throw_error(ErrorKind::kNotFound, path, "holds no data file (series are none); these are: {}",
                  fmt::join(kSuffixes, ", "));
  }
  return collection::expand_paths(files);  // none twice
}

}  // namespace cellfeed::series
