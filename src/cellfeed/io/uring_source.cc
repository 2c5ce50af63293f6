// A local file read with io_uring: a read_many keeps a deep queue of reads in flight.
#include <fcntl.h>

#include "cellfeed/base/error.h"
#include "cellfeed/io/local_backends.h"
#include "cellfeed/io/uring.h"

namespace cellfeed::io {
namespace {

class UringSource final : public ByteSource {
 public:
  UringSource(OpenFile file, const LocalFileOptions& options)
      : file_(std::move(file)), queue_depth_(options.queue_depth) {
    if (options.random_access) ::posix_fadvise(file_.use().fd(), 0, 0, POSIX_FADV_RANDOM);
  }

  const std::string& path() const override { return file_.path(); }
  std::int64_t size() const override { return file_.size(); }
  bool is_unchanged() const override { return file_.is_unchanged(); }
  std::string_view backend_name() const override { return "io_uring"; }

  std::int64_t alignment() const override { return file_.alignment(); }

  // A single read gains nothing from a queue.
  void read(std::int64_t offset, std::span<std::byte> out) const override {
    check_range(*this, offset, std::ssize(out));
    file_.read(offset, out);
  }

  void read_many(std::span<const ReadRequest> requests) const override {
    check_requests(*this, requests);
    if (requests.size() == 1) return file_.read(requests[0].offset, requests[0].out);
    process_ring(queue_depth_)->begin(file_, requests)->wait();
  }

  std::unique_ptr<PendingReads> begin_read_many(
      std::span<const ReadRequest> requests) const override {
    check_requests(*this, requests);
    return process_ring(queue_depth_)->begin(file_, requests);
  }

 private:
  OpenFile file_;
  int queue_depth_;
};

}  // namespace

std::unique_ptr<ByteSource> make_uring_source(OpenFile file, const LocalFileOptions& options) {
  return std::make_unique<UringSource>(std::move(file), options);
}

bool is_uring_allowed(int queue_depth) {
  try {
    process_ring(queue_depth);
    return true;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kUnsupported) return false;
    throw;
  }
}

}  // namespace cellfeed::io
