// The files that a build reads, and reading them: in parallel, once, into parts kept on disk.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cellfeed/io/directory.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/io/temp_file.h"
#include "cellfeed/series/spilled_rows.h"
#include "cellfeed/series/work.h"

namespace cellfeed::series {

// The data files that `inputs` name: globs are expanded, folders looked through, but for those of
// series and `output_dir` in them.
std::vector<std::string> input_files(const std::vector<std::string>& inputs,
                                     const std::string& output_dir);

// What decoding a file may take, though a thread's share of the budget be less: a page of every
// column.
std::int64_t decode_bytes(const SeriesWork& work);

// Not thread-safe.
class Inputs {
 public:
  // Throws kNotFound and kIo; of files that are shared out, what open_table does.
  explicit Inputs(std::vector<std::string> files);

  const std::vector<std::string>& files() const { return files_; }
  std::int64_t bytes() const { return bytes_; }
  std::int64_t n_parts() const { return static_cast<std::int64_t>(groups_.size()); }
  // Paths, sizes and times of change: what an interrupted build compares.
  std::string plan() const;

  struct Rows {
    std::unique_ptr<SpilledRows> rows;
    TimeKind kind = TimeKind::kRow;
    std::int64_t n_read = 0, n_dropped = 0;
    std::int64_t n_parts_resumed = 0;
  };
  // parts: a folder for what is kept. resume: parts that are whole there are not read again.
  // was_auto: the features are those that the first file has. Throws kCorruptData, kUnsupported,
  // kNoSuchKey, kInvalidArgument, kNoSpace, kIo, kCancelled.
  Rows read(const RowColumns& columns, bool was_auto, const io::Directory& parts, bool resume,
            SeriesWork& work) const;

 private:
  // A file, or some of its rows.
  struct Share {
    std::size_t file = 0;
    TableShare of;
    std::int64_t bytes = 0;
  };
  // What one thread reads from front to back, and keeps in one part.
  struct Group {
    std::vector<Share> shares;
    std::int64_t bytes = 0;
  };
  void add_shares(std::size_t file, std::int64_t enough);
  // Throws kCorruptData where the path leads to another file than was planned for, or that file
  // was written to since.
  void require_as_planned(std::size_t file) const;
  // fn(source) for the share, all of whose rows are of the file that was planned for.
  template <typename Fn>
  void with_source(const Share& share, const RowColumns& columns, bool was_auto,
                   const SeriesWork& work, const Fn& fn) const;
  SpilledPart read_group(const Group& group, const RowColumns& columns, bool was_auto,
                         io::FileTarget target, SeriesWork& work) const;
  TimeKind common_kind(const std::vector<SpilledPart>& parts) const;

  std::vector<std::string> files_;
  std::vector<io::PathStatus> planned_;  // each file as it was then
  std::vector<Group> groups_;
  std::int64_t bytes_ = 0;
};

}  // namespace cellfeed::series
