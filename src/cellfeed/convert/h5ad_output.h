// H5adOutput: an .h5ad that appears whole or not at all, also over an existing one.
// Not thread-safe. Lifetime: destroyed before finish(), it leaves nothing behind.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "cellfeed/convert/inputs/row_reader.h"
#include "cellfeed/convert/inputs/sources.h"
#include "cellfeed/format/h5ad/h5ad_writer.h"

namespace arrow {
class Table;
}

namespace cellfeed::convert {

class H5adOutput {
 public:
  // Removes what dead writers of this path left. Throws kAlreadyExists when path exists and is not
  // to be overwritten, before anything is written.
  H5adOutput(const std::string& path, std::int64_t n_cols,
             const format::h5ad::H5adWriterOptions& options, bool overwrite);
  H5adOutput(const H5adOutput&) = delete;
  H5adOutput& operator=(const H5adOutput&) = delete;

  void append(const CsrPiece& rows, std::size_t matrix = 0);
  void append_library_sizes(std::span<const double> sizes) { writer_->append_library_sizes(sizes); }
  void append_obs(const arrow::Table& obs) { writer_->append_obs(obs); }
  std::vector<std::string> carry(const format::h5ad::CarriedFrom& from,
                                 const format::h5ad::CarriedGroups& groups) {
    return writer_->carry(from, groups);
  }
  // Returns the bytes of the file.
  std::int64_t finish(const arrow::Table& var);
  std::int64_t nnz_written() const { return writer_->nnz_written(); }

 private:
  std::string path_;
  std::optional<format::h5ad::H5adWriter> writer_;
};

bool is_h5ad_name(const std::string& output);
// Throws kAlreadyExists naming the remedy when the file is there.
void refuse_existing_file(const std::string& path);
// The same, but where it may be overwritten: throws kAlreadyExists where it is no file. Throws
// kInvalidArgument for a name that is not of an .h5ad file.
void require_usable_output(const std::string& path, bool overwrite);
// Throws kInvalidArgument where the file is one of those that it is made of, also by another name.
void refuse_own_input(const std::string& path, const Sources& inputs);

}  // namespace cellfeed::convert
