// convert_value: one stored value to the output type, with a note of what was lost.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "cellfeed/base/dtype.h"

namespace cellfeed {

// True when To holds every From exactly, so that no check is needed.
template <typename To, typename From>
constexpr bool is_always_exact() {
  if constexpr (std::is_same_v<To, From> || std::is_same_v<From, bool>)
    return true;
  else if constexpr (std::is_floating_point_v<To>)
    return std::numeric_limits<From>::digits <= std::numeric_limits<To>::digits;
  else if constexpr (std::is_floating_point_v<From>)
    return false;
  else
    return std::numeric_limits<From>::digits <= std::numeric_limits<To>::digits &&
           (std::is_signed_v<To> || !std::is_signed_v<From>);
}

// Sets *exact to false when value is not representable; NaN and infinities pass between float
// types.
template <typename To, typename From>
inline To convert_value(From value, bool* exact) {
  if constexpr (is_always_exact<To, From>()) {
    return static_cast<To>(value);
  } else if constexpr (std::is_floating_point_v<To>) {
    const To result = static_cast<To>(value);
    if constexpr (std::is_floating_point_v<From>) {
      if (static_cast<From>(result) != value && !std::isnan(value)) *exact = false;
    } else {
      // 2^63 and 2^64 overflow the cast back, so compare below them.
      constexpr To kLimit = static_cast<To>(std::numeric_limits<From>::max());
      if (!(result < kLimit) || static_cast<From>(result) != value) *exact = false;
    }
    return result;
  } else if constexpr (std::is_floating_point_v<From>) {
    constexpr From kLow = static_cast<From>(std::numeric_limits<To>::min());
    constexpr From kHigh = static_cast<From>(std::numeric_limits<To>::max());
    if (!(value >= kLow && value < kHigh + From{1}) || std::trunc(value) != value) {
      *exact = false;
      return To{};
    }
    return static_cast<To>(value);
  } else {
    const To result = static_cast<To>(value);
    if (static_cast<From>(result) != value || ((result < To{}) != (value < From{}))) *exact = false;
    return result;
  }
}

// What became of values on their way to another type.
struct Fit {
  bool is_exact = true;
  // Each is the nearest of its type; an integer type has only the value itself.
  bool is_near = true;
  bool allows(bool may_round) const { return is_near && (is_exact || may_round); }
};

// convert_value that tells rounding from values that the type cannot stand for. For floats that
// overflow the result is an infinity.
template <typename To, typename From>
inline To convert_value(From value, Fit* fit) {
  if constexpr (std::is_floating_point_v<To>) {
    const To result = convert_value<To>(value, &fit->is_exact);
    if constexpr (std::is_floating_point_v<From> && !is_always_exact<To, From>())
      fit->is_near &= !std::isinf(result) || std::isinf(value);
    return result;
  } else {
    return convert_value<To>(value, &fit->is_near);
  }
}

}  // namespace cellfeed
