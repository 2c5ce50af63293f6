#include "cellfeed/convert/h5ad_output.h"

#include <filesystem>

#include "cellfeed/io/atomic_file.h"

namespace cellfeed::convert {
namespace {

bool exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::symlink_status(path, error).type() !=
         std::filesystem::file_type::not_found;
}

}  // namespace

void refuse_existing_file(const std::string& path) {
  if (exists(path))
    throw Error(ErrorKind::kAlreadyExists,
                "exists already; choose another name, or overwrite it (--overwrite)", path);
}

H5adOutput::H5adOutput(std::string path, std::int64_t n_cols,
                       const format::h5ad::H5adWriterOptions& options, bool overwrite)
    : path_(std::move(path)), written_path_(path_) {
  if (!overwrite)
    refuse_existing_file(path_);
  else if (std::filesystem::is_directory(path_))
    throw Error(ErrorKind::kAlreadyExists, "is a directory, and is not overwritten", path_);
  else if (exists(path_))
    written_path_ = io::make_temp_path(path_);
  writer_.emplace(written_path_, n_cols, options);
}

H5adOutput::~H5adOutput() {
  if (written_path_ == path_) return;
  std::error_code ignored;
  std::filesystem::remove(written_path_, ignored);
}

void H5adOutput::append(const RowPiece& rows) {
  format::h5ad::CsrSlice slice;
  slice.indptr = rows.indptr;
  slice.indices = rows.indices.data();
  slice.values = rows.values.data();
  slice.dtype = rows.dtype;
  writer_->append(slice);
}

std::int64_t H5adOutput::finish(const arrow::Table& var) {
  writer_->finish(&var);
  if (written_path_ != path_) {
    io::publish_file(written_path_, path_, io::OnExisting::kReplace);
    written_path_ = path_;
  }
  return static_cast<std::int64_t>(std::filesystem::file_size(path_));
}

}  // namespace cellfeed::convert
