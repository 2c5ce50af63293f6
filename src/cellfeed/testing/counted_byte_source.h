// CountedByteSource: a double without a map that counts the round trips and bytes of another.
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "cellfeed/io/byte_source.h"

namespace cellfeed::testing {

class CountedByteSource final : public io::ByteSource {
 public:
  explicit CountedByteSource(std::shared_ptr<const io::ByteSource> source)
      : source_(std::move(source)) {}
  const std::string& path() const override { return source_->path(); }
  std::int64_t size() const override { return source_->size(); }
  std::string_view backend_name() const override { return "counted"; }
  void read(std::int64_t offset, std::span<std::byte> out) const override {
    ++round_trips;
    n_bytes += std::ssize(out);
    source_->read(offset, out);
  }
  void read_many(std::span<const io::ReadRequest> requests) const override {
    ++round_trips;
    for (const auto& request : requests) {
      n_bytes += std::ssize(request.out);
      source_->read(request.offset, request.out);
    }
  }

  mutable std::atomic<int> round_trips{0};
  mutable std::atomic<std::int64_t> n_bytes{0};

 private:
  std::shared_ptr<const io::ByteSource> source_;
};

}  // namespace cellfeed::testing
