#include "cellfeed/cloud/part_upload.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "cellfeed/exec/thread_start.h"

namespace cellfeed::cloud {
namespace {

constexpr std::int64_t kPartBytes = std::int64_t{8} << 20;
constexpr std::int64_t kMaxParts = 9000;
constexpr std::size_t kAtOnce = 4;

}  // namespace

PartSizes part_sizes(std::int64_t content_bytes) {
  const std::int64_t least = (content_bytes + kMaxParts - 1) / kMaxParts;
  const std::int64_t bytes =
      (std::max(least, kPartBytes) + kPartBytes - 1) / kPartBytes * kPartBytes;
  return {bytes, static_cast<std::size_t>((content_bytes + bytes - 1) / bytes)};
}

void send_parts(const StagedFile::Content& content,
                const std::function<void(std::size_t part, std::string body)>& send) {
  const PartSizes sizes = part_sizes(content.size);
  std::atomic<std::size_t> next{0};
  std::mutex mutex;  // guards what follows, and the content
  std::exception_ptr failure;
  const auto send_some = [&](const std::stop_token&) {
    for (std::size_t part = next++; part < sizes.n; part = next++) try {
        const std::int64_t at = static_cast<std::int64_t>(part) * sizes.bytes;
        std::string body(static_cast<std::size_t>(std::min(sizes.bytes, content.size - at)), '\0');
        {
          const std::scoped_lock lock(mutex);
          content.read(at, std::as_writable_bytes(std::span(body)));
        }
        send(part, std::move(body));
      } catch (...) {
        const std::scoped_lock lock(mutex);
        if (!failure) failure = std::current_exception();
        next = sizes.n;
      }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < std::min(kAtOnce, sizes.n); ++i)
      threads.push_back(exec::start_thread(send_some));
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace cellfeed::cloud
