#include "cellfeed/format/shard/arrow_file.h"

#include <exception>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "cellfeed/format/shard/checksum.h"
#include "cellfeed/io/atomic_file.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/io/memory_source.h"

namespace cellfeed::format::shard {

void check_arrow(const arrow::Status& status, const std::string& path, ErrorKind kind) {
  if (status.ok()) return;
  throw Error(status.IsOutOfMemory() ? ErrorKind::kInternal : kind, status.ToString(), path);
}

namespace {

// The same, in memory where it has no map.
std::unique_ptr<io::ByteSource> with_map(std::unique_ptr<io::ByteSource> source) {
  if (!source->map().empty() || source->size() == 0) return source;
  std::vector<std::byte> bytes(static_cast<std::size_t>(source->size()));
  source->read(0, bytes);
  return io::make_memory_source(source->path(), std::move(bytes));
}

}  // namespace

MappedFile::MappedFile(const std::string& path)
    : MappedFile(with_map(io::open_file(path, {.access = io::FileAccess::kMap, .guarded = true}))) {
}

MappedFile::MappedFile(std::unique_ptr<io::ByteSource> source)
    : arrow::Buffer(reinterpret_cast<const std::uint8_t*>(source->map().data()), source->size()),
      source_(std::move(source)) {}

MappedFile::~MappedFile() = default;

void MappedFile::require_intact() const { io::require_unchanged(*source_); }

struct ChecksummedSink::State {
  explicit State(io::FileTarget target) : file(std::move(target), io::OnExisting::kReplace) {}

  io::AtomicFile file;
  RunningChecksum checksum;
  std::exception_ptr error;
};

ChecksummedSink::ChecksummedSink(io::FileTarget target)
    : state_(std::make_unique<State>(std::move(target))) {}
ChecksummedSink::~ChecksummedSink() = default;

arrow::Status ChecksummedSink::Write(const void* data, std::int64_t n_bytes) {
  const std::span<const std::byte> bytes(static_cast<const std::byte*>(data),
                                         static_cast<std::size_t>(n_bytes));
  try {
    state_->file.append(bytes);
  } catch (const Error& error) {
    state_->error = std::current_exception();
    return arrow::Status::IOError(error.what());
  }
  state_->checksum.add(bytes);
  return arrow::Status::OK();
}

arrow::Result<std::int64_t> ChecksummedSink::Tell() const { return state_->file.size(); }

std::string ChecksummedSink::path() const { return state_->file.path(); }

FileEntry ChecksummedSink::commit() {
  if (state_->error) std::rethrow_exception(state_->error);
  state_->file.commit();
  return {.name = std::filesystem::path(state_->file.path()).filename().string(),
          .bytes = state_->file.size(),
          .checksum = state_->checksum.value()};
}

void ChecksummedSink::check(const arrow::Status& status) {
  if (status.ok()) return;
  if (state_->error) std::rethrow_exception(state_->error);
  check_arrow(status, state_->file.path(), ErrorKind::kIo);
}

}  // namespace cellfeed::format::shard
