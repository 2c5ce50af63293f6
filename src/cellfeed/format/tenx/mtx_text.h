// MtxText: a Matrix Market file in coordinate form: what its header says, and the lines of its
// entries in pieces. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cellfeed/base/fork_safe_mutex.h"
#include "cellfeed/io/byte_source.h"
#include "cellfeed/io/sequential_reader.h"

namespace cellfeed::format::tenx {

enum class MtxField { kInteger, kReal, kPattern };

struct MtxHeader {
  MtxField field = MtxField::kInteger;
  std::int64_t n_rows = 0;
  std::int64_t n_cols = 0;
  std::int64_t n_entries = 0;
  std::int64_t n_lines = 0;  // of the header
  // Told by the names and the lists beside the matrix, not by its file.
  bool rows_are_cells = false;

  std::int64_t n_features() const { return rows_are_cells ? n_cols : n_rows; }
  std::int64_t n_cells() const { return rows_are_cells ? n_rows : n_cols; }
};

// The lines of some entries, each ended by "\n" or "\r\n"; blank ones are left out.
struct MtxLines {
  std::string text;
  std::int64_t n = 0;
  // (i, number): line i of these has that number in the file, and those after it the next ones.
  std::vector<std::pair<std::int64_t, std::int64_t>> numbers;
  std::int64_t number_of(std::int64_t line) const;
};

class MtxText {
 public:
  static constexpr std::int64_t kPieceLines = std::int64_t{1} << 16;
  // Two indices and a number with all its digits take 50.
  static constexpr std::int64_t kMaxEntryBytes = 128;

  // Reads the header. Throws kCorruptData, and kUnsupported for other forms of Matrix Market.
  explicit MtxText(std::shared_ptr<const io::ByteSource> source);

  const std::string& path() const { return source_->path(); }
  const MtxHeader& header() const { return header_; }
  std::int64_t n_pieces() const {
    return header_.n_entries / kPieceLines + (header_.n_entries % kPieceLines != 0 ? 1 : 0);
  }
  // Threads may ask for pieces in any order; those that differ much from the file's make it be read
  // again from the front. The last piece comes with the check that nothing follows. Throws
  // kCorruptData naming the line, also where the file was changed since it was opened. REQUIRES:
  // piece < n_pieces().
  MtxLines lines(std::int64_t piece) const;

 private:
  void read_header(io::LineReader& lines);
  void require_room() const;
  void begin() const;
  MtxLines read_piece() const;
  void require_end(io::LineReader& lines) const;

  const std::shared_ptr<const io::ByteSource> source_;
  MtxHeader header_;

  mutable ForkSafeMutex mutex_;                   // guards what follows
  mutable std::optional<io::LineReader> reader_;  // stands before piece next_; empty after an error
  mutable std::int64_t next_ = 0;
  mutable std::size_t text_bytes_ = 0;               // of the longest piece that was read
  mutable std::map<std::int64_t, MtxLines> passed_;  // read on the way to later ones
};

// Throws kUnsupported for more than can be numbered.
void require_numbers(const std::string& path, std::int64_t n_features, std::int64_t n_cells);

// Throws kCorruptData for a line that is no entry, however it goes on.
void require_short_line(const std::string& path, std::string_view line, std::int64_t number);

// For messages: the beginning of a text, without what terminals do not show.
std::string excerpt(std::string_view text);

}  // namespace cellfeed::format::tenx
