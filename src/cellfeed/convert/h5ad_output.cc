#include "cellfeed/convert/h5ad_output.h"

#include "cellfeed/base/argument_text.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/io/write_target.h"

namespace cellfeed::convert {
namespace {

// What a link leads to is replaced, and not the link.
std::string without_link(const std::string& path) {
  const io::FileSystem& files = io::file_system_of(path);
  return files.name_kind(path) == io::NameKind::kLink ? files.canonical(path) : path;
}

void refuse_no_file(const std::string& path) {
  const io::FileSystem& files = io::file_system_of(path);
  const io::PathKind kind = files.status(path).kind;
  if (kind == io::PathKind::kDirectory)
    throw Error(ErrorKind::kAlreadyExists, "is a directory, and is not overwritten", path);
  if (kind == io::PathKind::kOther)
    throw Error(ErrorKind::kAlreadyExists,
                "is no regular file but a device, a pipe or a socket, and is not overwritten",
                path);
  if (kind == io::PathKind::kNone && files.name_kind(path) == io::NameKind::kLink)
    throw Error(ErrorKind::kAlreadyExists,
                "is a link that leads nowhere; remove it, or choose another name", path);
}

}  // namespace

bool is_h5ad_name(const std::string& output) {
  return output.size() > 5 && output.ends_with(".h5ad");
}

void refuse_existing_file(const std::string& path) {
  io::require_writable_folder(path);
  if (io::file_system_of(path).name_kind(path) != io::NameKind::kFree)
    throw_error(ErrorKind::kAlreadyExists, path,
                "exists already; choose another name, or replace it with {}",
                argument("overwrite", "true"));
}

void require_usable_output(const std::string& path, bool overwrite) {
  if (overwrite)
    refuse_no_file(path);
  else
    refuse_existing_file(path);
  if (!is_h5ad_name(path))
    throw Error(ErrorKind::kInvalidArgument,
                "only .h5ad files are written: give it a name that ends in .h5ad", path);
}

void refuse_own_input(const std::string& path, const Sources& inputs) {
  if (!inputs.input_at(path).empty())
    throw_error(ErrorKind::kInvalidArgument, path,
                "is an input, and would be overwritten; choose another output");
}

H5adOutput::H5adOutput(const std::string& path, std::int64_t n_cols,
                       const format::h5ad::H5adWriterOptions& options, bool overwrite)
    : path_(without_link(path)) {
  require_usable_output(path, overwrite);
  io::require_writable_folder(path_);
  io::remove_leftovers(path_);
  writer_.emplace(path_, n_cols, options,
                  overwrite ? io::OnExisting::kReplace : io::OnExisting::kRefuse);
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
