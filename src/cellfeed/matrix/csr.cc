#include "cellfeed/matrix/csr.h"

#include <cstddef>
#include <cstring>
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

void close_gaps(std::span<std::int64_t> indptr, std::span<const std::int32_t> counts,
                std::int32_t* indices, void* values, std::size_t value_bytes) {
  auto* bytes = static_cast<std::byte*>(values);
  std::size_t end = 0;
  for (std::size_t row = 0; row < counts.size(); ++row) {
    const auto begin = static_cast<std::size_t>(indptr[row]);
    const auto n = static_cast<std::size_t>(counts[row]);
    if (begin != end) {
      std::memmove(indices + end, indices + begin, n * sizeof(std::int32_t));
      std::memmove(bytes + end * value_bytes, bytes + begin * value_bytes, n * value_bytes);
    }
    indptr[row] = static_cast<std::int64_t>(end);
    end += n;
  }
  indptr[counts.size()] = static_cast<std::int64_t>(end);
}

void cut_to_rows(CsrBlock& block) {
  const auto nnz = static_cast<std::size_t>(block.indptr[block.n_rows]);
  block.indices.shrink(nnz);
  std::visit([nnz](auto& buffer) { buffer.shrink(nnz); }, block.values);
}

GeneAxis GeneAxis::take(std::span<const std::int64_t> columns) const {
  GeneAxis taken;
  taken.names.reserve(columns.size());
  for (const std::int64_t column : columns) {
    if (const auto it = repeated.find(column); it != repeated.end())
      taken.repeated.emplace(taken.size(), it->second);
    taken.names.push_back(names[static_cast<std::size_t>(column)]);
  }
  return taken;
}

}  // namespace cellfeed::matrix
