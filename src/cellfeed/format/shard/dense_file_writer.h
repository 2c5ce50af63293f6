// DenseFileWriter: streams float32 rows into one shard_NNNNNN.npy that numpy maps as it is. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cellfeed/format/shard/encoded_rows.h"
#include "cellfeed/format/shard/manifest.h"

namespace cellfeed::format::shard {

class DenseFileWriter {
 public:
  DenseFileWriter(const std::string& path, std::int64_t n_genes);
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
