#include "cellfeed/cloud/http/http_source.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "cellfeed/cloud/http/range_fetcher.h"
#include "cellfeed/cloud/http/recent_objects.h"

namespace cellfeed::cloud {
namespace {

// With some dozens of requests under way a round trip of 30 ms is shared by all of them: this much
// comes meanwhile.
constexpr io::ReadCosts kCosts{
    .gap_bytes = 128 << 10, .max_read_bytes = 4 << 20, .page_bytes = 64 << 10};
// Read at once where a few of them are wanted: formats are told by their first bytes.
constexpr std::int64_t kFirstBytes = 16 << 10;
constexpr std::size_t kFewBytes = 1 << 10;

class HttpSource final : public io::ByteSource {
 public:
  HttpSource(std::shared_ptr<const HttpObject> object, std::string_view backend)
      : object_(std::move(object)), backend_(backend) {}

  const std::string& path() const override { return object_->path(); }
  std::int64_t size() const override { return object_->version().size; }
  std::string_view backend_name() const override { return backend_; }
  // Large ranges over a long line are more under way than a disk needs.
  io::ReadCosts costs() const override {
    io::ReadCosts costs = kCosts;
    costs.in_flight_bytes = std::max(costs.in_flight_bytes, bytes_in_flight());
    return costs;
  }

  void read(std::int64_t offset, std::span<std::byte> out) const override {
    if (out.size() <= kFewBytes && offset <= kFirstBytes - std::ssize(out))
      return read_of_head(offset, out);
    const io::ReadRequest request{offset, out};
    read_many({&request, 1});
  }
  void read_many(std::span<const io::ReadRequest> requests) const override {
    if (const auto pending = begin_read_many(requests)) pending->wait();
  }
  std::unique_ptr<io::PendingReads> begin_read_many(
      std::span<const io::ReadRequest> requests) const override {
    io::check_requests(*this, requests);
    return begin_ranges(object_, requests);
  }

 private:
  void read_of_head(std::int64_t offset, std::span<std::byte> out) const {
    io::check_range(*this, offset, std::ssize(out));
    auto head = recent_objects().find_head(path(), object_->version());
    if (!head) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(std::min(kFirstBytes, size())));
      const io::ReadRequest request{0, bytes};
      read_many({&request, 1});
      head = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
      recent_objects().keep_head(path(), object_->version(), head);
    }
    std::copy_n(head->begin() + offset, out.size(), out.begin());
  }

  const std::shared_ptr<const HttpObject> object_;
  const std::string_view backend_;
};

}  // namespace

std::unique_ptr<io::ByteSource> make_http_source(std::shared_ptr<const HttpObject> object,
                                                 std::string_view backend) {
  return std::make_unique<HttpSource>(std::move(object), backend);
}

io::PathStatus status_of_object(const std::string& path, const ObjectVersion& version) {
  constexpr std::int64_t kNsPerS = 1'000'000'000;
  const std::int64_t modified = std::max<std::int64_t>(version.modified_s, 0) * kNsPerS;
  return {.kind = io::PathKind::kFile,
          .size = version.size,
          .modified_ns = modified,
          .changed_ns = modified,
          .seen_ns = std::max<std::int64_t>(version.seen_s, 0) * kNsPerS,
          .device = std::hash<std::string>()(version.etag) | 1,
          .inode = std::hash<std::string>()(path)};
}

io::PathStatus status_of_folder(const std::string& path) {
  return {.kind = io::PathKind::kDirectory, .device = 1, .inode = std::hash<std::string>()(path)};
}

}  // namespace cellfeed::cloud
