// Packed segments: rows of a matrix that were kept together. One is a .cells file as shards have it
// and, written after it, a list of which rows of the matrix its rows are; both are never changed
// once they are there. What is not whole, damaged, or of another matrix is no segment.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cellfeed/format/shard/cells_file_writer.h"
#include "cellfeed/format/shard/packed_rows.h"
#include "cellfeed/format/shard/verify.h"
#include "cellfeed/io/directory.h"

namespace cellfeed::convert {

// What a segment has to fit.
struct PackedMatrix {
  std::uint64_t identity = 0;
  std::int64_t n_rows = 0;
  std::int64_t n_genes = 0;
  DType value_dtype = DType::kF32;
};

struct PackedSegment {
  std::string name;  // of its files, without their endings; empty: it is a shard
  std::shared_ptr<const format::shard::CellsFile> cells;
  std::vector<std::uint64_t> rows;  // of the matrix
};

// Of the files in a folder: names of segments that are whole, sorted.
std::vector<std::string> segment_names(const io::Directory& directory);
// Empty where it is none, and where it is gone. Throws kIo where that cannot be told.
std::optional<PackedSegment> open_segment(const io::Directory& directory, const std::string& name,
                                          const PackedMatrix& matrix, bool verifies);
// The shards of a directory that has all rows of the matrix, in their order. Empty where they are
// of another one. Throws what opening shards throws.
std::vector<PackedSegment> open_shard_segments(const std::string& dir, const PackedMatrix& matrix,
                                               bool verifies);
// Whether the files of a shard directory are as its manifest lists them: each byte is read, but of
// cells the header alone. Throws what reading them throws.
bool are_listed_files_whole(const std::string& dir);
// Whether a manifest lists cells of this checksum, or is none that can be read.
bool lists_cells(const std::string& dir, std::uint64_t checksum);
// What is wrong with it, whatever matrix it is of: each byte is read. Empty: nothing.
std::vector<std::string> segment_damages(const io::Directory& directory, const std::string& name,
                                         const format::shard::VerifyProgress& progress = {});
void remove_segment(const io::Directory& directory, const std::string& name);
bool is_segment_file(std::string_view name);

// Not thread-safe. Without finish() nothing is left behind.
class PackedSegmentWriter {
 public:
  PackedSegmentWriter(const io::Directory& directory, const PackedMatrix& matrix);
  void append(std::span<const std::uint64_t> rows, format::shard::EncodedRows& encoded);
  std::int64_t n_rows() const { return std::ssize(rows_); }
  std::int64_t bytes() const { return bytes_; }
  // Its name, once both files are there.
  std::string finish();

 private:
  void write_list(std::uint64_t cells_checksum);

  io::Directory directory_;
  PackedMatrix matrix_;
  std::string name_;
  format::shard::CellsFileWriter cells_;
  std::vector<std::uint64_t> rows_;
  std::int64_t bytes_ = 0;
};

}  // namespace cellfeed::convert
