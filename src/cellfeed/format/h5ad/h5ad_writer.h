// H5adWriter: streams CSR rows, obs and var to one .h5ad file that anndata 0.8 and later read.
// Memory is bounded by the largest piece appended plus the categories of categorical columns.
// Not thread-safe. Lifetime: a writer destroyed before finish() leaves nothing behind.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/base/dtype.h"
#include "cellfeed/format/h5ad/carried_groups.h"
#include "cellfeed/io/temp_file.h"
#include "cellfeed/matrix/csr.h"

namespace arrow {
class Table;
}

namespace cellfeed::format::h5ad {

enum class Compression { kNone, kGzip };

// A matrix of the same cells beside X.
struct FurtherMatrix {
  std::string path;  // "layers/NAME": CSR; "obsm/NAME": an array
  std::int64_t n_cols = 0;
  DType value_dtype = DType::kF32;  // of layers any but kBool; appended values must convert exactly
};

struct H5adWriterOptions {
  DType value_dtype = DType::kF32;  // any but kBool; appended values must convert exactly
  DType index_dtype = DType::kI32;  // or kI64, for readers that want indices as wide as indptr
  Compression compression = Compression::kNone;
  int gzip_level = 4;  // 1..12: smaller files, slower writing
  // Elements per chunk of data and indices: larger is faster to stream, dearer for random rows of
  // compressed files.
  std::int64_t chunk_elements = 16384;
  std::vector<FurtherMatrix> matrices = {};
  std::string processing_json = "{}";  // Processing::json of X; also scanpy's uns/log1p
};

// Indices of a row may come in any order.
using matrix::CsrSlice;

class H5adWriter {
 public:
  // Throws kAlreadyExists when path exists and is not to be replaced, kIo / kNotFound when it
  // cannot be made. Writes to a temporary name beside it.
  H5adWriter(std::string path, std::int64_t n_cols, H5adWriterOptions options = {},
             io::OnExisting on_existing = io::OnExisting::kRefuse);
  ~H5adWriter();
  H5adWriter(const H5adWriter&) = delete;
  H5adWriter& operator=(const H5adWriter&) = delete;

  // matrix: 0 is X, others follow as in the options.
  void append(const CsrSlice& rows, std::size_t matrix = 0);
  void append(const matrix::CsrBlock& rows);
  // The next rows of obs: "_index" (strings) and the columns of the first piece, with the same
  // types. Dictionary columns become categoricals; their categories are the union over pieces in
  // order of first appearance. Schema metadata "index_name" names the index; field metadata
  // "nullable" keeps a mask even when nothing is missing. Without any piece, cells are named by
  // their position.
  void append_obs(const arrow::Table& obs);
  // Of the next rows: obs' last column, "_library_size" (RowStore::known_library_sizes). REQUIRES:
  // obs of these rows was appended.
  void append_library_sizes(std::span<const double> sizes);
  // What was appended or is known of X stays. Returns what was left out, as copy_groups.
  // REQUIRES: all rows were appended.
  std::vector<std::string> carry(const CarriedFrom& from, const CarriedGroups& groups);
  // Writes var ("_index" first; null: columns named by position), closes the file and renames it to
  // path.
  void finish(const arrow::Table* var);

  std::int64_t nnz_written() const;

 private:
  class FrameWriter;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cellfeed::format::h5ad
