// DenseFileWriter: streams float32 rows into one shard_NNNNNN.npy that numpy maps as it is. Memory:
// 8 bytes a block of rows. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cellfeed/format/shard/encoded_rows.h"
#include "cellfeed/format/shard/manifest.h"
#include "cellfeed/io/temp_file.h"

namespace cellfeed::format::shard {

class DenseFileWriter {
 public:
  DenseFileWriter(io::FileTarget target, std::int64_t n_genes);
  ~DenseFileWriter();
  DenseFileWriter(DenseFileWriter&&) noexcept;

  void append(const EncodedRows& rows);
  std::int64_t n_cells() const;
  std::int64_t nnz() const;
  FileEntry finish();  // patches the header with the number of rows, syncs, renames

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cellfeed::format::shard
