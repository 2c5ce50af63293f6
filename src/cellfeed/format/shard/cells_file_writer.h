// CellsFileWriter: streams packed records into one shard_NNNNNN.cells; nothing has its final name
// before finish(). Memory: 8 bytes a cell. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cellfeed/base/dtype.h"
#include "cellfeed/format/shard/encoded_rows.h"
#include "cellfeed/format/shard/manifest.h"
#include "cellfeed/io/temp_file.h"

namespace cellfeed::format::shard {

struct CellsFileSpec {
  std::int64_t shard = 0;
  std::int64_t n_genes = 0;
  DType value_dtype = DType::kF32;
  GeneOrder gene_order = GeneOrder::kSource;
  // A segment closes with the record that reaches this; 1-16 MiB (tests go below). Larger: fewer
  // checksums, bigger reads.
  std::int64_t segment_bytes = 4 << 20;
};

class CellsFileWriter {
 public:
  CellsFileWriter(io::FileTarget target, const CellsFileSpec& spec);
  ~CellsFileWriter();  // without finish(): nothing is left behind
  CellsFileWriter(CellsFileWriter&&) noexcept;

  // Rows of encode_rows, whose checksums become those of their places in this file.
  void append(EncodedRows& rows);
  std::int64_t n_cells() const;
  std::int64_t nnz() const;
  // Writes tables and header, syncs, renames.
  FileEntry finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cellfeed::format::shard
