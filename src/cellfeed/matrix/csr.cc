#include "cellfeed/matrix/csr.h"

#include <utility>

namespace cellfeed::matrix {

ValueBuffer make_value_buffer(DType dtype, std::size_t size, std::shared_ptr<BufferMemory> memory) {
  switch (dtype) {
    case DType::kF32:
      return Buffer<float>(size, std::move(memory));
    case DType::kF64:
      return Buffer<double>(size, std::move(memory));
    case DType::kI32:
      return Buffer<std::int32_t>(size, std::move(memory));
    case DType::kI64:
      return Buffer<std::int64_t>(size, std::move(memory));
    default:
      throw_invalid("batches hold float32, float64, int32 or int64 values, not: '{}'",
                    dtype_name(dtype));
  }
}

DType value_buffer_dtype(const ValueBuffer& values) {
  return std::visit(
      [](const auto& buffer) { return dtype_of<std::remove_cvref_t<decltype(buffer[0])>>(); },
      values);
}

void* value_buffer_data(ValueBuffer& values) {
  return std::visit([](auto& buffer) -> void* { return buffer.data(); }, values);
}

const void* value_buffer_data(const ValueBuffer& values) {
  return std::visit([](const auto& buffer) -> const void* { return buffer.data(); }, values);
}

}  // namespace cellfeed::matrix
