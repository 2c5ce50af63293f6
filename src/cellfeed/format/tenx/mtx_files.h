// The three files of a 10x matrix in Matrix Market form: PREFIXmatrix.mtx, PREFIXbarcodes.tsv and
// PREFIXfeatures.tsv (PREFIXgenes.tsv of Cell Ranger 2), each as it is or with .gz. Pure but for
// looking at the disk.
#pragma once

#include <string>

namespace cellfeed::format::tenx {

struct MtxFiles {
  std::string matrix;
  std::string barcodes;
  std::string features;
  bool has_types = true;  // features.tsv, not genes.tsv
};

// Whether the path is a folder with such a matrix, or the file of one by its name.
bool is_mtx(const std::string& path);

// path: a folder whose files have no prefix, or the matrix itself. Throws kNotFound naming what is
// missing, kInvalidArgument where a file is there twice.
MtxFiles find_mtx_files(const std::string& path);

}  // namespace cellfeed::format::tenx
