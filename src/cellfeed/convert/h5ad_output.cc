#include "cellfeed/convert/h5ad_output.h"

#include "cellfeed/io/file_system.h"
#include "cellfeed/io/write_target.h"

namespace cellfeed::convert {
namespace {

io::OnExisting on_existing(const std::string& path, bool overwrite) {
  if (!overwrite) {
    refuse_existing_file(path);
    return io::OnExisting::kRefuse;
  }
  if (io::is_directory(path))
    throw Error(ErrorKind::kAlreadyExists, "is a directory, and is not overwritten", path);
  return io::OnExisting::kReplace;
}

}  // namespace

void refuse_existing_file(const std::string& path) {
  io::require_writable_folder(path);
  if (io::file_system_of(path).name_kind(path) != io::NameKind::kFree)
    throw Error(ErrorKind::kAlreadyExists,
                "exists already; choose another name, or replace it with --overwrite", path);
}

void refuse_own_input(const std::string& path, const Sources& inputs) {
  if (!inputs.input_at(path).empty())
    throw_error(ErrorKind::kInvalidArgument, path,
                "is an input, and would be overwritten; choose another output");
}

H5adOutput::H5adOutput(std::string path, std::int64_t n_cols,
                       const format::h5ad::H5adWriterOptions& options, bool overwrite)
    : path_(std::move(path)) {
  io::require_writable_folder(path_);
  const io::OnExisting existing = on_existing(path_, overwrite);
  io::remove_leftovers(path_);
  writer_.emplace(path_, n_cols, options, existing);
}

void H5adOutput::append(const CsrPiece& rows, std::size_t matrix) {
  format::h5ad::CsrSlice slice;
  slice.indptr = rows.indptr;
  slice.indices = rows.indices.data();
  slice.values = rows.values.data();
  slice.dtype = rows.dtype;
  writer_->append(slice, matrix);
}

std::int64_t H5adOutput::finish(const arrow::Table& var) {
  writer_->finish(&var);
  return io::status_of(path_).size;
}

}  // namespace cellfeed::convert
