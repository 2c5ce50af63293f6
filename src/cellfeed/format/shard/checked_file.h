// CheckedFile: a file whose bytes are compared with checksums, and Findings: what came of it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/checksum.h"
#include "cellfeed/format/shard/verify.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::format::shard {

// Memory of each thread that verifies.
inline constexpr std::int64_t kVerifyReadBytes = 1 << 20;

// Collects what tasks on several threads find. Thread-safe.
class Findings {
 public:
  Findings(const VerifyProgress& progress, std::int64_t bytes_total)
      : progress_(progress), bytes_total_(bytes_total) {}

  void add(Damage damage) {
    const std::lock_guard lock(mutex_);
    damages_.push_back(std::move(damage));
  }
  void advance(std::int64_t bytes) {
    if (!progress_) return;
    const std::lock_guard lock(mutex_);
    bytes_done_ += bytes;
    progress_(bytes_done_, bytes_total_);
  }
  std::vector<Damage> take() {
    std::sort(damages_.begin(), damages_.end(), [](const Damage& a, const Damage& b) {
      return std::tie(a.shard, a.file, a.begin) < std::tie(b.shard, b.file, b.begin);
    });
    return std::move(damages_);
  }

 private:
  std::mutex mutex_;  // guards the last two, and calls of the first
  const VerifyProgress& progress_;
  std::int64_t bytes_total_;
  std::int64_t bytes_done_ = 0;
  std::vector<Damage> damages_;
};

// One file under check, opened anew by each task, so that many shards need few descriptors. Read
// with pread, so that a bad sector is an error and not a signal.
class CheckedFile {
 public:
  CheckedFile(std::string name, std::int64_t shard, std::string path, Findings& findings)
      : name_(std::move(name)),
        shard_(shard),
        path_(std::move(path)),
        findings_(findings),
        size_(open()->size()) {}

  std::int64_t size() const { return size_; }
  const std::string& path() const { return path_; }
  void report(std::int64_t begin, std::int64_t end, std::string what,
              std::int64_t segment = -1) const {
    findings_.add({.file = name_,
                   .shard = shard_,
                   .segment = segment,
                   .begin = begin,
                   .end = end,
                   .what = std::move(what)});
  }
  std::vector<std::byte> read(std::int64_t begin, std::int64_t end) const {
    std::vector<std::byte> bytes(static_cast<std::size_t>(end - begin));
    open()->read(begin, bytes);
    findings_.advance(end - begin);
    return bytes;
  }
  // Calls consume with the bytes [begin, end), a piece at a time.
  template <typename Consume>
  void scan(std::int64_t begin, std::int64_t end, const Consume& consume) const {
    std::vector<std::byte> piece(static_cast<std::size_t>(
        std::min(kVerifyReadBytes, std::max<std::int64_t>(end - begin, 0))));
    if (begin >= end) return;
    const auto source = open();
    for (std::int64_t at = begin; at < end; at += kVerifyReadBytes) {
      const std::span<std::byte> part(
          piece.data(), static_cast<std::size_t>(std::min(kVerifyReadBytes, end - at)));
      source->read(at, part);
      consume(std::span<const std::byte>(part), at);
      findings_.advance(static_cast<std::int64_t>(part.size()));
    }
  }
  std::uint64_t checksum(std::int64_t begin, std::int64_t end) const {
    RunningChecksum sum;
    scan(begin, end, [&](std::span<const std::byte> bytes, std::int64_t) { sum.add(bytes); });
    return sum.value();
  }
  void check_zeros(std::int64_t begin, std::int64_t end, const char* what) const {
    scan(begin, end, [&](std::span<const std::byte> bytes, std::int64_t at) {
      const auto bad = std::find_if(bytes.begin(), bytes.end(),
                                    [](std::byte byte) { return byte != std::byte{0}; });
      if (bad != bytes.end())
        report(at + (bad - bytes.begin()), at + (bad - bytes.begin()) + 1,
               fmt::format("{} must be zero", what));
    });
  }

 private:
  std::unique_ptr<io::ByteSource> open() const {
    return io::open_file(path_, {.access = io::FileAccess::kPread, .threads = 1});
  }

  std::string name_;
  std::int64_t shard_;
  std::string path_;
  Findings& findings_;
  std::int64_t size_;
};

}  // namespace cellfeed::format::shard
