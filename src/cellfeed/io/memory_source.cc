#include "cellfeed/io/memory_source.h"

#include <algorithm>
#include <utility>

namespace cellfeed::io {
namespace {

class MemorySource final : public ByteSource {
 public:
  MemorySource(std::string path, std::vector<std::byte> bytes)
      : path_(std::move(path)), bytes_(std::move(bytes)) {}

  const std::string& path() const override { return path_; }
  std::int64_t size() const override { return std::ssize(bytes_); }
  std::string_view backend_name() const override { return "memory"; }
  std::span<const std::byte> map() const override { return bytes_; }

  void read(std::int64_t offset, std::span<std::byte> out) const override {
    check_range(*this, offset, std::ssize(out));
    std::copy_n(bytes_.begin() + offset, out.size(), out.begin());
  }

 private:
  std::string path_;
  std::vector<std::byte> bytes_;
};

}  // namespace

std::unique_ptr<ByteSource> make_memory_source(std::string path, std::vector<std::byte> bytes) {
  return std::make_unique<MemorySource>(std::move(path), std::move(bytes));
}

}  // namespace cellfeed::io
