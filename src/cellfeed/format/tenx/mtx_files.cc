#include "cellfeed/format/tenx/mtx_files.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::format::tenx {
namespace {
namespace fs = std::filesystem;

constexpr std::string_view kMatrix = "matrix.mtx";

bool is_matrix_name(std::string_view name) {
  return name.ends_with(".mtx") || name.ends_with(".mtx.gz");
}

std::vector<fs::path> matrices_in(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const std::string& name : io::Directory(folder.string()).names())
    if (is_matrix_name(name)) found.push_back(folder / name);
  return found;
}

// The one of these names, or of them with .gz, that is there; empty where none is.
std::string find_one(const fs::path& folder, const std::vector<std::string>& names) {
  std::vector<std::string> found;
  for (const std::string& name : names)
    for (const char* suffix : {"", ".gz"})
      if (io::exists((folder / (name + suffix)).string())) found.push_back(name + suffix);
  if (found.size() > 1)
    throw_error(ErrorKind::kInvalidArgument, folder.string(),
                "holds '{}' and '{}', which need not be the same: move one of them away", found[0],
                found[1]);
  return found.empty() ? "" : (folder / found[0]).string();
}

std::string find_companion(const std::string& matrix, const std::string& prefix,
                           const std::vector<std::string>& names) {
  const fs::path folder = fs::path(matrix).parent_path();
  std::vector<std::string> wanted;
  for (const std::string& name : names) wanted.push_back(prefix + name);
  std::string found = find_one(folder.empty() ? fs::path(".") : folder, wanted);
  if (found.empty())
    throw_error(ErrorKind::kNotFound, matrix,
                "a matrix needs the names of its cells and genes beside it, and there is no '{}', "
                "with or without .gz",
                fmt::join(wanted, "' or '"));
  return found;
}

MtxFiles files_of(const std::string& matrix) {
  std::string name = fs::path(matrix).filename().string();
  const std::size_t at = name.rfind(kMatrix);
  if (at == std::string::npos)
    throw_error(ErrorKind::kUnsupported, matrix,
                "a Matrix Market file is read as 10x writes it: named PREFIXmatrix.mtx, with "
                "PREFIXbarcodes.tsv and PREFIXfeatures.tsv beside it; rename the files");
  MtxFiles files;
  files.matrix = matrix;
  const std::string prefix = name.substr(0, at);
  files.barcodes = find_companion(matrix, prefix, {"barcodes.tsv"});
  files.features = find_companion(matrix, prefix, {"features.tsv", "genes.tsv"});
  files.has_types =
      fs::path(files.features).filename().string().starts_with(prefix + "features.tsv");
  return files;
}

}  // namespace

bool is_mtx(const std::string& path) {
  if (!io::is_directory(path)) return is_matrix_name(path);
  return !matrices_in(path).empty();
}

MtxFiles find_mtx_files(const std::string& path) {
  std::error_code ignored;
  if (!io::is_directory(path)) return files_of(path);
  const std::string matrix = find_one(path, {std::string(kMatrix)});
  if (!matrix.empty()) return files_of(matrix);
  std::vector<std::string> names;
  for (const fs::path& found : matrices_in(path)) names.push_back(found.filename().string());
  throw_error(ErrorKind::kInvalidArgument, path,
              "a folder without matrix.mtx, but with other matrices: open those by their own path: "
              "'{}'",
              fmt::join(names, "', '"));
}

}  // namespace cellfeed::format::tenx
