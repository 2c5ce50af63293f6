// Arrow's view of the files of a shard: a sink that checksums on its way into an AtomicFile, and
// errors as ours.
#pragma once

#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>
#include <arrow/result.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/manifest.h"
#include "cellfeed/io/byte_source.h"
#include "cellfeed/io/temp_file.h"

namespace cellfeed::format::shard {

void check_arrow(const arrow::Status& status, const std::string& path, ErrorKind kind);

template <typename T>
T arrow_value(arrow::Result<T> result, const std::string& path, ErrorKind kind) {
  check_arrow(result.status(), path, kind);
  return *std::move(result);
}

// The bytes of a file, mapped or read whole, that Arrow slices without copying. What it makes of
// them keeps them.
class MappedFile : public arrow::Buffer {
 public:
  explicit MappedFile(const std::string& path);
  ~MappedFile() override;
  // Throws where what was read of it may be wrong: asked before it is used.
  void require_intact() const;
  // Calls read(), which reads this file: what is wrong with its bytes is said after what became of
  // them.
  template <typename Read>
  auto checked(const Read& read) const {
    try {
      auto found = read();
      require_intact();
      return found;
    } catch (const Error&) {
      require_intact();
      throw;
    }
  }

 private:
  explicit MappedFile(std::unique_ptr<io::ByteSource> source);
  std::unique_ptr<io::ByteSource> source_;
};

// Arrow's readers take no const buffer, though they write to none.
inline std::shared_ptr<arrow::Buffer> as_buffer(const std::shared_ptr<const MappedFile>& file) {
  return std::const_pointer_cast<MappedFile>(file);
}

// Not thread-safe. Replaces the target on commit; removes the temporary file otherwise.
class ChecksummedSink : public arrow::io::OutputStream {
 public:
  explicit ChecksummedSink(io::FileTarget target);
  ~ChecksummedSink() override;
  arrow::Status Write(const void* data, std::int64_t n_bytes) override;
  arrow::Result<std::int64_t> Tell() const override;
  arrow::Status Close() override { return arrow::Status::OK(); }
  bool closed() const override { return false; }
  using arrow::io::OutputStream::Write;

  std::string path() const;
  FileEntry commit();
  // What Arrow reports of a failed write is the text of our own error: this throws that one as it
  // was.
  void check(const arrow::Status& status);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cellfeed::format::shard
