// The files of a matrix in Matrix Market form and of the names of its cells and genes, as the
// programs that write them call them: Cell Ranger, split-pipe (Parse Biosciences), kb_python and
// alevin-fry. Each is there as it is or with .gz. Pure but for looking at the disk.
#pragma once

#include <string>
#include <vector>

namespace cellfeed::format::tenx {

struct MtxFiles {
  std::string matrix;
  std::string cells;
  std::string genes;
  std::string gene_names;        // empty where there are none but in `genes`
  bool has_types = false;        // features.tsv: its third column
  bool has_headings = false;     // cells and genes are CSV tables
  bool has_cells_first = false;  // the program writes cells x genes
  std::vector<std::string> all() const;
};

// Whether the path is a folder with such a matrix, or the file of one by its name.
bool is_mtx(const std::string& path);

// path: a folder whose files have no prefix, the folder around alevin/, counts_unfiltered/ or
// counts_filtered/, or the matrix itself. Throws kNotFound naming what is missing, kInvalidArgument
// where a file is there twice.
MtxFiles find_mtx_files(const std::string& path);

}  // namespace cellfeed::format::tenx
