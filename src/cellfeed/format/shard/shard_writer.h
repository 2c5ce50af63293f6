// ShardWriter: the three files of one shard, written side by side. Encode rows on any thread with
// encode_rows(), append them in order on one. Memory: see CellsFileWriter and ObsFileWriter.
// append* and finish are not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cellfeed/format/shard/cells_file_writer.h"
#include "cellfeed/format/shard/encoded_rows.h"
#include "cellfeed/format/shard/file_names.h"
#include "cellfeed/format/shard/manifest.h"
#include "cellfeed/format/shard/obs_schema.h"
#include "cellfeed/io/directory.h"

namespace cellfeed::format::shard {

struct ShardSpec {
  io::Directory dir;
  Generation generation = 0;  // of the directory
  Layout layout = Layout::kPacked;
  CellsFileSpec cells;                        // dense uses shard and n_genes of it
  std::int64_t first_cell = 0;                // of this shard in the directory
  std::shared_ptr<arrow::Schema> obs_schema;  // of stored_obs_schema()
  bool keeps_library_sizes = false;           // those of the rows appended
};

class ShardWriter {
 public:
  explicit ShardWriter(ShardSpec spec);
  ~ShardWriter();  // without finish(): nothing is left behind
  ShardWriter(ShardWriter&&) noexcept;

  void append(EncodedRows rows);
  void append_obs(const std::shared_ptr<arrow::Table>& obs);  // of conform_obs()
  std::int64_t n_cells() const;
  // Syncs and renames all three files. The shard is finished once PartialManifest::add has recorded
  // the entry. Throws kInternal when obs and cells differ in number.
  ShardEntry finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cellfeed::format::shard
