#include "cellfeed/format/tenx/mtx_files.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "cellfeed/base/error.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::format::tenx {
namespace {
namespace fs = std::filesystem;

// What a program calls its files, behind a prefix that all of them share.
struct Names {
  std::string_view matrix;
  std::string_view cells;
  std::string_view genes;
  std::string_view other_genes{};  // what an older version calls them
  std::string_view gene_names{};
  bool has_headings = false;
  bool has_cells_first = true;
};

// Where the name of a matrix ends like several, the first with another of its files beside it.
constexpr Names kPrograms[] = {
    {.matrix = "count_matrix.mtx",
     .cells = "cell_metadata.csv",
     .genes = "all_genes.csv",
     .has_headings = true},
    {.matrix = "DGE.mtx",
     .cells = "cell_metadata.csv",
     .genes = "all_genes.csv",
     .has_headings = true},
    {.matrix = "cells_x_genes.mtx",
     .cells = "cells_x_genes.barcodes.txt",
     .genes = "cells_x_genes.genes.txt",
     .gene_names = "cells_x_genes.genes.names.txt"},
    {.matrix = "quants_mat.mtx", .cells = "quants_mat_rows.txt", .genes = "quants_mat_cols.txt"},
    {.matrix = "matrix.mtx",
     .cells = "barcodes.tsv",
     .genes = "features.tsv",
     .other_genes = "genes.tsv",
     .has_cells_first = false},
};
// kb_python and alevin-fry write into one of these of the folder that they are given.
constexpr const char* kInnerFolders[] = {"alevin", "counts_unfiltered", "counts_filtered"};

constexpr std::string_view kGzip = ".gz";

std::string without_gzip(std::string name) {
  if (name.ends_with(kGzip)) name.resize(name.size() - kGzip.size());
  return name;
}

bool is_matrix_name(const std::string& name) { return without_gzip(name).ends_with(".mtx"); }

// Their paths in the folder.
std::vector<std::string> matrices_in(const fs::path& folder) {
  std::vector<std::string> found;
  for (const std::string& name : io::Directory(folder.string()).names())
    if (is_matrix_name(name)) found.push_back(name);
  if (!found.empty()) return found;
  for (const char* inner : kInnerFolders)
    if (io::is_directory((folder / inner).string()))
      for (const std::string& name : io::Directory((folder / inner).string()).names())
        if (is_matrix_name(name)) found.push_back((fs::path(inner) / name).string());
  return found;
}

[[noreturn]] void throw_doubled(const std::string& folder, const std::string& one,
                                const std::string& other, const char* remedy) {
  throw_error(ErrorKind::kInvalidArgument, folder,
              "holds '{}' and '{}', which need not be the same: {}", one, other, remedy);
}

// The files beside a matrix. Of names that are empty there is none.
class Companions {
 public:
  Companions(const std::string& matrix, const Names& names)
      : matrix_(matrix), folder_(fs::path(matrix).parent_path()) {
    const std::string name = without_gzip(fs::path(matrix).filename().string());
    prefix_ = name.substr(0, name.size() - names.matrix.size());
    if (folder_.empty()) folder_ = ".";
  }

  // The one of these names, or of them with .gz, that is there; empty where none is.
  std::string find(std::initializer_list<std::string_view> names) const {
    std::vector<std::string> found;
    for (const std::string_view name : names)
      for (const std::string_view suffix : {std::string_view(), kGzip})
        if (const std::string file = fmt::format("{}{}{}", prefix_, name, suffix);
            !name.empty() && io::exists((folder_ / file).string()))
          found.push_back(file);
    if (found.size() > 1)
      throw_doubled(folder_.string(), found[0], found[1], "move one of them away");
    return found.empty() ? "" : (folder_ / found[0]).string();
  }
  std::string require(std::string_view name, std::string_view other = {}) const {
    std::string found = find({name, other});
    if (!found.empty()) return found;
    throw_error(ErrorKind::kNotFound, matrix_,
                "a matrix needs the names of its cells and genes beside it, and there is no "
                "'{}{}'{}, with or without .gz",
                prefix_, name, other.empty() ? "" : fmt::format(" or '{}{}'", prefix_, other));
  }

 private:
  const std::string& matrix_;
  fs::path folder_;
  std::string prefix_;
};

const Names& names_of(const std::string& matrix) {
  const Names* names = nullptr;
  const std::string name = without_gzip(fs::path(matrix).filename().string());
  for (const Names& each : kPrograms) {
    if (!name.ends_with(each.matrix)) continue;
    const Companions files(matrix, each);
    if (!names) names = &each;
    if (!files.find({each.cells}).empty() || !files.find({each.genes, each.other_genes}).empty())
      return each;
  }
  if (names) return *names;
  std::string known;
  for (const Names& each : kPrograms)
    known += fmt::format("{}PREFIX{}", known.empty() ? "" : ", ", each.matrix);
  throw_error(ErrorKind::kUnsupported, matrix,
              "a Matrix Market file is read by the name that its program gives it, with the files "
              "of its cells and genes beside it: {}, such as PREFIXmatrix.mtx with "
              "PREFIXbarcodes.tsv and PREFIXfeatures.tsv; rename the files",
              known);
}

MtxFiles files_of(const std::string& matrix) {
  const Names& names = names_of(matrix);
  const Companions beside(matrix, names);
  MtxFiles files;
  files.matrix = matrix;
  files.cells = beside.require(names.cells);
  files.genes = beside.require(names.genes, names.other_genes);
  files.gene_names = beside.find({names.gene_names});
  files.has_types = without_gzip(files.genes).ends_with("features.tsv");
  files.has_headings = names.has_headings;
  files.has_cells_first = names.has_cells_first;
  return files;
}

bool has_no_prefix(const std::string& matrix) {
  const std::string name = without_gzip(fs::path(matrix).filename().string());
  return std::ranges::find(kPrograms, name, &Names::matrix) != std::end(kPrograms);
}

}  // namespace

std::vector<std::string> MtxFiles::all() const {
  std::vector<std::string> files{matrix, cells, genes};
  if (!gene_names.empty()) files.push_back(gene_names);
  return files;
}

bool is_mtx(const std::string& path) {
  if (!io::is_directory(path)) return is_matrix_name(path);
  return !matrices_in(path).empty();
}

MtxFiles find_mtx_files(const std::string& path) {
  if (!io::is_directory(path)) return files_of(path);
  const std::vector<std::string> all = matrices_in(path);
  std::vector<std::string> named = all;
  std::erase_if(named, [](const std::string& matrix) { return !has_no_prefix(matrix); });
  if (named.size() > 1) throw_doubled(path, named[0], named[1], "open one of them by its own path");
  if (named.size() == 1) return files_of((fs::path(path) / named[0]).string());
  throw_error(
      ErrorKind::kInvalidArgument, path,
      "no matrix in this folder has a known name without a prefix: open one by its own path: "
      "'{}'",
      fmt::join(all, "', '"));
}

}  // namespace cellfeed::format::tenx
