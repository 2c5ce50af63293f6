#include "cellfeed/cloud/content_checksum.h"

#include <openssl/evp.h>

#include <cstdint>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/cloud/digest.h"
#include "cellfeed/io/crc.h"

namespace cellfeed::cloud {
namespace {

struct ChecksumFormat {
  std::string_view name;
  std::size_t n_bytes;
};

ChecksumFormat known(ChecksumKind kind) {
  switch (kind) {
    case ChecksumKind::kCrc32:
      return {"CRC-32", 4};
    case ChecksumKind::kCrc32c:
      return {"CRC-32C", 4};
    case ChecksumKind::kCrc64Nvme:
      return {"CRC-64/NVME", 8};
    case ChecksumKind::kMd5:
      return {"MD5", 16};
  }
  throw Error(ErrorKind::kInternal, "not a kind of checksum");
}

io::CrcKind crc_of(ChecksumKind kind) {
  if (kind == ChecksumKind::kCrc32) return io::CrcKind::kCrc32;
  return kind == ChecksumKind::kCrc32c ? io::CrcKind::kCrc32c : io::CrcKind::kCrc64Nvme;
}

}  // namespace

class ContentCheck::Sum {
 public:
  virtual ~Sum() = default;
  virtual void add(std::span<const std::byte> bytes) = 0;
  // Empty where there is none on this machine.
  virtual std::string value(std::size_t n_bytes) const = 0;
};

class ContentCheck::CrcSum final : public Sum {
 public:
  explicit CrcSum(io::CrcKind kind) : crc_(kind) {}
  void add(std::span<const std::byte> bytes) override { crc_.add(bytes); }
  std::string value(std::size_t n_bytes) const override {
    std::string bytes;
    for (std::size_t i = n_bytes; i-- > 0;)
      bytes += static_cast<char>(crc_.value() >> (8 * i) & 0xff);
    return bytes;
  }

 private:
  io::Crc crc_;
};

class ContentCheck::Md5Sum final : public Sum {
 public:
  Md5Sum() {
    if (context_ == nullptr || EVP_DigestInit_ex(context_.get(), EVP_md5(), nullptr) != 1)
      context_.reset();
  }
  void add(std::span<const std::byte> bytes) override {
    if (context_ && EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) != 1)
      throw Error(ErrorKind::kInternal, "MD5 failed");
  }
  std::string value(std::size_t n_bytes) const override {
    if (!context_) return {};
    std::string bytes(n_bytes, '\0');
    const Context copy(EVP_MD_CTX_new());
    if (copy == nullptr || EVP_MD_CTX_copy_ex(copy.get(), context_.get()) != 1 ||
        EVP_DigestFinal_ex(copy.get(), reinterpret_cast<unsigned char*>(bytes.data()), nullptr) !=
            1)
      throw Error(ErrorKind::kInternal, "MD5 failed");
    return bytes;
  }

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  using Context = std::unique_ptr<EVP_MD_CTX, Free>;

  Context context_{EVP_MD_CTX_new()};
};

std::optional<ContentChecksum> parse_checksum(ChecksumKind kind, std::string_view text) {
  auto bytes = from_base64(text);
  if (!bytes || bytes->size() != known(kind).n_bytes) return std::nullopt;
  return ContentChecksum{.kind = kind, .bytes = *std::move(bytes)};
}

ContentCheck::ContentCheck(ContentChecksum expected) : expected_(std::move(expected)) {
  if (expected_.kind == ChecksumKind::kMd5)
    sum_ = std::make_unique<Md5Sum>();
  else
    sum_ = std::make_unique<CrcSum>(crc_of(expected_.kind));
}

ContentCheck::~ContentCheck() = default;
ContentCheck::ContentCheck(ContentCheck&&) noexcept = default;

void ContentCheck::add(std::span<const std::byte> bytes) { sum_->add(bytes); }

bool ContentCheck::is_right() const {
  const std::string value = sum_->value(expected_.bytes.size());
  return value.empty() || value == expected_.bytes;
}

std::string_view ContentCheck::name() const { return known(expected_.kind).name; }

}  // namespace cellfeed::cloud
