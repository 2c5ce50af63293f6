// Numbers of a file as those of this machine.
#include "cellfeed/format/stored_number.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/hdf5/number_order.h"

namespace cellfeed::format {

StoredNumber stored_number(const hdf5::Datatype& type, const std::string& path,
                           const std::string& name) {
  if (type.is_boolean()) return DType::kBool;
  const bool is_float = type.type_class == hdf5::TypeClass::kFloatingPoint;
  if (!is_float && type.type_class != hdf5::TypeClass::kFixedPoint)
    throw_error(ErrorKind::kUnsupported, path,
                "a dataset that is not of numbers is not readable as matrix data: '{}' is of "
                "type {}",
                name, type.description());
  const std::uint64_t n = type.size;
  const bool is_known = n == 2 || n == 4 || n == 8 || (!is_float && n == 1);
  if (!is_known || !type.is_standard)
    throw_error(ErrorKind::kUnsupported, path,
                "numbers of this type are not readable; write the matrix as float32 or int32: "
                "'{}' is of type {}",
                name, type.description());
  StoredNumber number = !is_float ? integer_dtype(n, type.is_signed)
                        : n == 8  ? DType::kF64
                                  : DType::kF32;
  number.bytes = static_cast<std::int64_t>(n);
  number.is_big_endian = type.is_big_endian && n > 1;
  return number;
}

void StoredNumber::to_native(std::span<const std::byte> stored, std::byte* out) const {
  if (stored.empty()) return;
  const bool is_half = dtype == DType::kF32 && bytes == 2;
  thread_local std::vector<std::byte> halves;
  if (is_half) halves.resize(stored.size());
  std::byte* ordered = is_half ? halves.data() : out;
  std::memcpy(ordered, stored.data(), stored.size());
  if (is_big_endian)
    for (std::byte* at = ordered; at < ordered + stored.size(); at += bytes)
      std::reverse(at, at + bytes);
  if (is_half) hdf5::widen_float16(halves, {reinterpret_cast<float*>(out), halves.size() / 2});
}

std::vector<std::int64_t> StoredNumber::to_integers(std::span<const std::byte> stored) const {
  std::vector<std::byte> native(stored.size());
  to_native(stored, native.data());
  std::vector<std::int64_t> integers(stored.size() / static_cast<std::size_t>(bytes));
  dispatch_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    for (std::size_t i = 0; i < integers.size(); ++i) {
      T value;
      std::memcpy(&value, native.data() + i * sizeof(T), sizeof(T));
      integers[i] = static_cast<std::int64_t>(value);
    }
  });
  return integers;
}

}  // namespace cellfeed::format
