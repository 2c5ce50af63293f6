// Fingerprint: 64 bits that change when anything that was added does. Not cryptographic.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "cellfeed/sampling/random.h"

namespace cellfeed::sampling {

class Fingerprint {
 public:
  explicit Fingerprint(std::string_view name) {
    for (const char c : name) add(static_cast<unsigned char>(c));
  }
  Fingerprint& add(std::uint64_t value) {
    state_ = splitmix64(state_ ^ value, 0);
    return *this;
  }
  Fingerprint& add_signed(std::int64_t value) { return add(static_cast<std::uint64_t>(value)); }
  Fingerprint& add_real(double value) { return add(std::bit_cast<std::uint64_t>(value)); }
  template <typename T>
  Fingerprint& add_all(std::span<const T> values) {
    add(values.size());
    for (const T value : values) {
      if constexpr (std::is_floating_point_v<T>) {
        add_real(static_cast<double>(value));
      } else {
        add(static_cast<std::uint64_t>(value));
      }
    }
    return *this;
  }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0;
};

}  // namespace cellfeed::sampling
