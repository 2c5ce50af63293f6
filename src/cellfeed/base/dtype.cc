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

DType integer_dtype(std::size_t bytes, bool is_signed) {
  switch (bytes) {
    case 1:
      return is_signed ? DType::kI8 : DType::kU8;
    case 2:
      return is_signed ? DType::kI16 : DType::kU16;
    case 4:
      return is_signed ? DType::kI32 : DType::kU32;
    default:
      return is_signed ? DType::kI64 : DType::kU64;
  }
}

std::string_view casting_name(Casting casting) {
  switch (casting) {
    case Casting::kExact:
      return "exact";
    case Casting::kRound:
      return "round";
    case Casting::kSameKind:
      return "same_kind";
  }
  throw Error(ErrorKind::kInternal, "unknown casting");
}

Casting casting_from_name(std::string_view name) {
  for (const Casting casting : {Casting::kExact, Casting::kRound, Casting::kSameKind})
    if (name == casting_name(casting)) return casting;
  throw_invalid("casting must be \"round\", \"exact\" or \"same_kind\": '{}'", name);
}

bool may_round(Casting casting, DType stored, DType out) {
  return is_float(out) &&
         (casting == Casting::kSameKind || (casting == Casting::kRound && is_float(stored)));
}

std::string misfit_text(Casting casting, DType stored, DType out, bool is_dtype_fixed) {
  // The narrowest dtype of batches that holds the stored type, or most of it.
  const DType wider = is_float(stored)     ? stored
                      : out == DType::kF32 ? DType::kF64
                      : out == DType::kI64 ? DType::kF64
                                           : DType::kI64;
  std::string rounding;
  if (is_dtype_fixed)
    return fmt::format("does not fit {}, in which it is given, exactly; pass casting=\"same_kind\"",
                       dtype_name(out));
  if (is_float(out) && !may_round(casting, stored, out))
    rounding = is_float(stored) ? " or casting=\"round\"" : " or casting=\"same_kind\"";
  return fmt::format("does not fit {}{}; pass dtype=\"{}\"{}", dtype_name(out),
                     rounding.empty() ? "" : " exactly", dtype_name(wider), rounding);
}

}  // namespace cellfeed
