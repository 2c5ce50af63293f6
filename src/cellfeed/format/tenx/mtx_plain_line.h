// PlainLines: entries as nearly all programs write them, such as "31 7 2": digits, one space,
// digits, one space, digits, the end of the line. Whatever else a line may be is not said here.
// Not thread-safe.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace cellfeed::format::tenx {

// Bytes from the beginning of a line on that PlainLines may look at, whatever they are.
inline constexpr std::int64_t kPlainLineBytes = 64;

static_assert(std::endian::native == std::endian::little, "digits are read eight at a time");

// Of 1 to 7 digits; false for more, and where there are none.
inline bool read_digits(const char*& at, std::uint32_t& number) {
  std::uint64_t bytes;
  std::memcpy(&bytes, at, sizeof bytes);
  bytes ^= 0x3030303030303030;  // digits become 0 to 9
  // Set from the first byte on that is above 9; sums carry towards later ones only.
  const std::uint64_t others = ((bytes + 0x7676767676767676) | bytes) & 0x8080808080808080;
  const int n = std::countr_zero(others) / 8;
  if (n == 0 || n == 8) return false;
  at += n;
  bytes <<= 64 - 8 * n;  // zeros in front
  bytes = (bytes * 10 + (bytes >> 8)) & 0x00FF00FF00FF00FF;
  bytes = (bytes * 100 + (bytes >> 16)) & 0x0000FFFF0000FFFF;
  number = static_cast<std::uint32_t>(bytes * 10000 + (bytes >> 32));
  return true;
}

// Of 1 to 15 digits in all, with or without a point between: both it and the power of ten are
// exact, so that their quotient is the nearest number (Clinger, How to read floating point numbers
// accurately, 1990).
inline bool read_decimal(const char*& at, double& number) {
  constexpr int kMaxDigits = 15;
  constexpr double kPowers[] = {1,   1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
  std::uint64_t digits = 0;
  int n = 0;
  const auto read_some = [&] {
    const int before = n;
    for (; n <= kMaxDigits && *at >= '0' && *at <= '9'; ++at, ++n)
      digits = 10 * digits + static_cast<std::uint64_t>(*at - '0');
    return n > before && n <= kMaxDigits;
  };
  if (!read_some()) return false;
  int n_decimals = 0;
  if (*at == '.') {
    ++at;
    n_decimals = n;
    if (!read_some()) return false;
    n_decimals = n - n_decimals;
  }
  number = static_cast<double>(digits) / kPowers[n_decimals];
  return true;
}

inline bool read_value(const char*& at, double& value) { return read_decimal(at, value); }
inline bool read_value(const char*& at, std::int32_t& value) {
  std::uint32_t number;
  if (!read_digits(at, number)) return false;
  value = static_cast<std::int32_t>(number);
  return true;
}

template <typename Value, bool has_value>
class PlainLines {
 public:
  // The indices as they are written, from 1 on. `at` is behind the line where it is a plain one,
  // else anywhere in it. REQUIRES: kPlainLineBytes that may be read.
  bool read(const char*& at, std::uint32_t& first, std::uint32_t& second, Value& value) {
    if (!read_digits(at, first) || *at++ != ' ' || !read_second(at, second)) return false;
    if constexpr (has_value) {
      if (*at++ != ' ') return false;
      // What most counts are: the processor foresees where the next line begins.
      const auto digit = static_cast<unsigned char>(*at - '0');
      if (digit <= 9 && at[1] == '\n') {
        value = static_cast<Value>(digit);
        at += 2;
        return true;
      }
      if (!read_value(at, value)) return false;
    }
    at += *at == '\r';
    return *at++ == '\n';
  }

 private:
  // That of the line before, mostly: entries are sorted by it.
  bool read_second(const char*& at, std::uint32_t& second) {
    std::uint64_t bytes;
    std::memcpy(&bytes, at, sizeof bytes);
    if (((bytes ^ known_bytes_) & known_mask_) != 0) {
      const char* const begin = at;
      if (!read_digits(at, known_)) return false;
      known_length_ = at - begin;
      known_bytes_ = bytes;
      known_mask_ = ~std::uint64_t{0} >> (56 - 8 * known_length_);  // with the byte behind
    } else {
      at += known_length_;
    }
    second = known_;
    return true;
  }

  std::uint64_t known_bytes_ = 0, known_mask_ = ~std::uint64_t{0};  // as no digits are
  std::int64_t known_length_ = 0;
  std::uint32_t known_ = 0;
};

}  // namespace cellfeed::format::tenx
