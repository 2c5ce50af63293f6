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
#include "cellfeed/io/temp_file.h"

namespace cellfeed::format::shard {

void check_arrow(const arrow::Status& status, const std::string& path, ErrorKind kind);

template <typename T>
T arrow_value(arrow::Result<T> result, const std::string& path, ErrorKind kind) {
  check_arrow(result.status(), path, kind);
  return *std::move(result);
}

// The bytes of a file, mapped, its descriptor closed. What Arrow makes of them keeps them.
std::shared_ptr<arrow::Buffer> map_whole_file(const std::string& path);

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
