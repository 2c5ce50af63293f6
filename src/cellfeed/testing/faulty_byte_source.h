// FaultyByteSource: a double that fails, flips a byte or ends early where the test says.
// Thread-safe.
#pragma once

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/io/byte_source.h"

namespace cellfeed::testing {

struct Faults {
  std::optional<std::int64_t> fail_at_read{};  // the nth read (from 0) throws kIo,
  std::int64_t n_failing = std::numeric_limits<std::int64_t>::max() / 2;  // and so many with it
  std::optional<std::int64_t> fail_at_offset{};  // a read that covers this byte throws kIo
  std::optional<std::int64_t> flip_at_offset{};  // this byte comes back inverted
  std::optional<std::int64_t> truncate_to{};     // the source ends here
};

class FaultyByteSource final : public io::ByteSource {
 public:
  FaultyByteSource(std::shared_ptr<const io::ByteSource> source, const Faults& faults)
      : source_(std::move(source)), faults_(faults) {}

  const std::string& path() const override { return source_->path(); }
  bool is_unchanged() const override { return source_->is_unchanged(); }
  std::int64_t size() const override {
    return std::min(source_->size(), faults_.truncate_to.value_or(source_->size()));
  }
  std::string_view backend_name() const override { return "faulty"; }

  void read(std::int64_t offset, std::span<std::byte> out) const override {
    io::check_range(*this, offset, std::ssize(out));
    const std::int64_t number = n_reads_++;
    if (faults_.fail_at_read && number >= *faults_.fail_at_read &&
        number < *faults_.fail_at_read + faults_.n_failing) {
      throw_error(ErrorKind::kIo, path(), "planted fault at read: {}", number);
    }
    const auto covers = [&](const std::optional<std::int64_t>& at) {
      return at && *at >= offset && *at < offset + std::ssize(out);
    };
    if (covers(faults_.fail_at_offset)) {
      throw_error(ErrorKind::kIo, path(), "planted fault at offset: {}", *faults_.fail_at_offset);
    }
    source_->read(offset, out);
    if (covers(faults_.flip_at_offset)) {
      std::byte& byte = out[static_cast<std::size_t>(*faults_.flip_at_offset - offset)];
      byte = ~byte;
    }
  }

  std::int64_t reads() const { return n_reads_.load(); }

 private:
  std::shared_ptr<const io::ByteSource> source_;
  Faults faults_;
  mutable std::atomic<std::int64_t> n_reads_{0};
};

}  // namespace cellfeed::testing
