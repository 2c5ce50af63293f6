// A local file read with pread; a read_many is shared by a few threads.
#include <fcntl.h>

#include <algorithm>

#include "cellfeed/exec/thread_pool.h"
#include "cellfeed/io/local_backends.h"

namespace cellfeed::io {
namespace {

// Requests one thread takes at a time, so that handing them out costs less than reading them.
constexpr std::int64_t kRequestsPerTurn = 4;

class PreadSource final : public ByteSource {
 public:
  PreadSource(OpenFile file, const LocalFileOptions& options, std::string_view backend_name)
      : file_(std::move(file)),
        backend_name_(backend_name),
        pool_(exec::shared_pool(options.threads)) {
    if (options.random_access) ::posix_fadvise(file_.use().fd(), 0, 0, POSIX_FADV_RANDOM);
  }

  const std::string& path() const override { return file_.path(); }
  std::int64_t size() const override { return file_.size(); }
  bool is_unchanged() const override { return file_.is_unchanged(); }
  std::string_view backend_name() const override { return backend_name_; }

  void read(std::int64_t offset, std::span<std::byte> out) const override {
    check_range(*this, offset, std::ssize(out));
    file_.read(offset, out);
  }

  void read_many(std::span<const ReadRequest> requests) const override {
    check_requests(*this, requests);
    const std::int64_t n = std::ssize(requests);
    pool_->parallel_for((n + kRequestsPerTurn - 1) / kRequestsPerTurn, [&](std::int64_t turn) {
      const std::int64_t end = std::min(n, (turn + 1) * kRequestsPerTurn);
      for (std::int64_t i = turn * kRequestsPerTurn; i < end; ++i) {
        const ReadRequest& request = requests[static_cast<std::size_t>(i)];
        file_.read(request.offset, request.out);
      }
    });
  }

 private:
  OpenFile file_;
  std::string_view backend_name_;
  std::shared_ptr<exec::ThreadPool> pool_;
};

}  // namespace

std::unique_ptr<ByteSource> make_pread_source(OpenFile file, const LocalFileOptions& options,
                                              std::string_view backend_name) {
  return std::make_unique<PreadSource>(std::move(file), options, backend_name);
}

}  // namespace cellfeed::io
