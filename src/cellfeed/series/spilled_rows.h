// Rows read from input files and kept until their final order is known: for each part of the inputs
// records, runs of one entity after another; in memory as long as there is some, else in a file. A
// file that is whole is used again by a build that resumes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/io/byte_source.h"
#include "cellfeed/io/temp_file.h"
#include "cellfeed/series/row_source.h"

namespace cellfeed::series {

// Consecutive records of one entity.
struct Run {
  std::uint32_t entity = 0;  // of its part
  std::uint32_t n_rows = 0;
};

// What a part holds beside its records.
struct SpilledPart {
  std::vector<std::string> entities;
  StaticTable statics;  // of the entities
  std::vector<Run> runs;
  std::vector<Records> kept;  // all of its records, in their order; empty where a file has them
  std::optional<TimeKind> kind;
  std::int64_t n_read = 0, n_dropped = 0;
};

// Writes under the final name and waits for no disk: a part that is not whole is told by its
// checksum. Not thread-safe.
class SpillWriter {
 public:
  // take_memory(bytes): whether so much may be kept in memory; once it may not, the part is a file.
  SpillWriter(io::FileTarget target, const RowColumns& columns,
              std::function<bool(std::int64_t)> take_memory);
  ~SpillWriter();
  // Rows of one file; names: of the entities that blocks of this file number. Leaves the block
  // empty. Returns how many runs they became.
  std::int64_t add(RowBlock& block, std::span<const std::string> names);
  // Entities of the next file are numbered anew.
  void end_file(const RowSource& source);
  SpilledPart commit();

 private:
  struct Names;
  void open_file();
  void keep(Records& records);
  void append_records(const Records& records);
  std::int64_t add_runs(const RowBlock& block);
  void append(std::span<const std::byte> bytes);
  void write(std::span<const std::byte> bytes);
  void append_footer();

  io::FileTarget target_;
  std::string path_;
  std::function<bool(std::int64_t)> take_memory_;
  int fd_ = -1;  // none as long as all is kept in memory
  std::int64_t size_ = 0;
  std::size_t n_values_;
  SpilledPart part_;
  std::unique_ptr<Names> names_;
  std::vector<std::uint32_t> numbers_;  // of the file's entities, in the part
  std::vector<std::uint32_t> order_;    // scratch
  Records sorted_;
};

// The part in this file, every byte looked at. Empty where there is none, or it is not whole.
std::optional<SpilledPart> read_spilled_part(const std::string& path, const RowColumns& columns);

// All parts together. Thread-safe: immutable.
class SpilledRows {
 public:
  struct Piece {
    std::int32_t part = 0;
    std::int64_t first_record = 0;
    std::int64_t n_rows = 0;
    RecordRows kept{};  // in memory; without data where they are in a file
  };

  SpilledRows(std::vector<SpilledPart> parts, const std::vector<std::string>& paths,
              const RowColumns& columns);

  // Numbers of a record beside its time.
  std::size_t n_values() const { return n_values_; }
  // In the order of their first row.
  const std::vector<std::string>& entities() const { return entities_; }
  const StaticTable& statics() const { return statics_; }
  std::span<const Piece> pieces(std::int64_t entity) const;
  std::int64_t n_rows(std::int64_t entity) const;
  // Records [first, first + n) of a piece, each n_values + 1 numbers; the first has the bits of
  // an int64.
  void read(const Piece& piece, std::int64_t first, std::int64_t n, double* out) const;

 private:
  void add_statics(const SpilledPart& part, std::span<const std::uint32_t> numbers);
  std::size_t n_values_;
  StaticTable statics_;
  std::vector<std::unique_ptr<io::ByteSource>> files_;  // none for a part in memory
  std::vector<std::vector<Records>> kept_;
  std::vector<std::string> entities_;
  std::vector<Piece> pieces_;             // entity by entity
  std::vector<std::size_t> first_piece_;  // of each entity, and their number
};

}  // namespace cellfeed::series
