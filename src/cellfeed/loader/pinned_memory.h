// PinnedMemory: page-locked memory for batches, from torch's own cache of it. Torch notes which
// copies to a GPU use a block and hands a freed one out again only after them, whatever the stream;
// memory that we locked ourselves could be overwritten while such a copy is under way. Called
// through torch's C interface, which needs neither the GIL nor a build against torch.
//
// Thread-safe. Lifetime: shared by the buffers. In a forked child it refuses to allocate and leaves
// the parent's blocks alone, because a GPU must not be touched there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "cellfeed/matrix/buffer.h"

namespace cellfeed::loader {

// What is used of torch/csrc/inductor/aoti_torch/c/shim.h, whose ABI is the same across versions.
// All but last_error return 0 when they succeed.
struct TorchFunctions {
  std::int32_t (*empty_pinned)(std::int64_t n_dims, const std::int64_t* sizes,
                               const std::int64_t* strides, std::int32_t dtype,
                               std::int32_t device_type, std::int32_t device_index, void** tensor);
  std::int32_t (*data_pointer)(void* tensor, void** data);
  std::int32_t (*view)(void* tensor, std::int64_t n_dims, const std::int64_t* sizes,
                       const std::int64_t* strides, std::int64_t offset, void** view);
  std::int32_t (*delete_tensor)(void* tensor);
  const char* (*last_error)() = nullptr;  // null where torch is too old to say
  std::int32_t uint8 = 0;                 // numbers of that dtype and device
  std::int32_t cpu = 0;
};

// From libtorch_cpu. Throws kInvalidArgument naming what is missing.
TorchFunctions load_torch_functions(const std::string& library);

class PinnedMemory final : public matrix::BufferMemory {
 public:
  explicit PinnedMemory(const TorchFunctions& torch);
  // Throws kIo when torch refuses, kInvalidArgument in a forked child.
  Block allocate(std::size_t bytes) override;
  void free(const Block& block) noexcept override;
  std::size_t taken_bytes(std::size_t bytes) const override;

  // A tensor of torch's (uint8, `bytes` long) over the block that `handle` belongs to; the caller
  // owns it, and it keeps the memory alive.
  void* make_tensor(void* handle, std::size_t bytes) const;

 private:
  [[noreturn]] void fail(const char* what, std::size_t bytes) const;

  const TorchFunctions torch_;
  const std::uint64_t generation_;
};

}  // namespace cellfeed::loader
