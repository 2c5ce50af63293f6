// ShardWriter: the files of one shard, written side by side. Encode rows on any thread with
// encode_rows(), append them in order on one. Memory: see CellsFileWriter and ObsFileWriter.
// append* and finish are not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cellfeed/format/shard/cells_file_writer.h"
#include "cellfeed/format/shard/encoded_rows.h"
#include "cellfeed/format/shard/file_names.h"
#include "cellfeed/format/shard/manifest.h"
#include "cellfeed/format/shard/obs/obs_schema.h"
#include "cellfeed/io/directory.h"

namespace cellfeed::format::shard {

// A matrix beside the first.
struct MatrixSpec {
  Layout layout = Layout::kPacked;
  std::int64_t n_cols = 0;
  DType value_dtype = DType::kF32;
  GeneOrder gene_order = GeneOrder::kSource;
};

struct ShardSpec {
  io::Directory dir;
  Generation generation = 0;  // of the directory
  Layout layout = Layout::kPacked;
  CellsFileSpec cells;                        // dense uses shard and n_genes of it
  std::int64_t first_cell = 0;                // of this shard in the directory
  std::shared_ptr<arrow::Schema> obs_schema;  // of stored_obs_schema()
  bool keeps_library_sizes = false;           // those of the rows appended
  bool has_own_library_sizes = false;         // as ShardEntry's
  std::vector<MatrixSpec> matrices = {};
};

class ShardWriter {
 public:
  explicit ShardWriter(ShardSpec spec);
  ~ShardWriter();  // without finish(): nothing is left behind
  ShardWriter(ShardWriter&&) noexcept;

  // matrix: 0 is the first, others follow as in the spec. Rows are appended once: the hashes behind
  // their records become checksums of this shard.
  void append(EncodedRows& rows, std::size_t matrix = 0);
  void append_obs(const std::shared_ptr<arrow::Table>& obs);  // of conform_obs()
  // Of the matrix that has fewest so far.
  std::int64_t n_cells() const;
  // Syncs and renames all files. The shard is finished once PartialManifest::add has recorded
  // the entry. Throws kInternal when obs and the
  // rows of matrices differ in number.
  ShardEntry finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cellfeed::format::shard
