#include "cellfeed/base/dtype.h"

#include <array>
#include <utility>

namespace cellfeed {
namespace {
constexpr std::array<std::pair<std::string_view, DType>, 11> kNames{{{"bool", DType::kBool},
                                                                     {"uint8", DType::kU8},
                                                                     {"int8", DType::kI8},
                                                                     {"uint16", DType::kU16},
                                                                     {"int16", DType::kI16},
                                                                     {"uint32", DType::kU32},
                                                                     {"int32", DType::kI32},
                                                                     {"uint64", DType::kU64},
                                                                     {"int64", DType::kI64},
                                                                     {"float32", DType::kF32},
                                                                     {"float64", DType::kF64}}};
}  // namespace

std::string_view dtype_name(DType dtype) {
  for (const auto& [name, value] : kNames)
    if (value == dtype) return name;
  throw Error(ErrorKind::kInternal, "unknown dtype");
}

DType dtype_from_name(std::string_view name) {
  for (const auto& [known, value] : kNames)
    if (known == name) return value;
  throw_invalid(
      "unknown dtype; use one of bool, uint8, int8, uint16, int16, uint32, int32, uint64, int64, "
      "float32, float64: '{}'",
      name);
}

std::size_t dtype_bytes(DType dtype) {
  return dispatch_dtype(dtype, [](auto value) { return sizeof(value); });
}

}  // namespace cellfeed
