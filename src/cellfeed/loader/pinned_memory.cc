#include "cellfeed/loader/pinned_memory.h"

#include <dlfcn.h>

#include <bit>

#include "cellfeed/base/error.h"
#include "cellfeed/exec/fork_guard.h"

namespace cellfeed::loader {
namespace {

template <typename Function>
Function find(void* library, const char* name, const std::string& path) {
  void* found = ::dlsym(library, name);
  if (found == nullptr)
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("pin_memory=True needs a newer torch, such as 2.13; missing: {}", name),
                path);
  return reinterpret_cast<Function>(found);
}

}  // namespace

TorchFunctions load_torch_functions(const std::string& library) {
  // Never closed: blocks may outlive every loader.
  void* opened = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    const char* reason = ::dlerror();
    throw_invalid("pin_memory=True takes memory from torch, whose library cannot be opened: {}",
                  reason == nullptr ? library : reason);
  }
  using Number = std::int32_t (*)();
  TorchFunctions torch{};
  torch.empty_pinned =
      find<decltype(torch.empty_pinned)>(opened, "aoti_torch_empty_strided_pinned", library);
  torch.data_pointer =
      find<decltype(torch.data_pointer)>(opened, "aoti_torch_get_data_ptr", library);
  torch.view = find<decltype(torch.view)>(opened, "aoti_torch__reinterpret_tensor", library);
  torch.delete_tensor =
      find<decltype(torch.delete_tensor)>(opened, "aoti_torch_delete_tensor_object", library);
  torch.last_error = reinterpret_cast<decltype(torch.last_error)>(
      ::dlsym(opened, "torch_exception_get_what_without_backtrace"));
  torch.uint8 = find<Number>(opened, "aoti_torch_dtype_uint8", library)();
  torch.cpu = find<Number>(opened, "aoti_torch_device_type_cpu", library)();
  return torch;
}

PinnedMemory::PinnedMemory(const TorchFunctions& torch)
    : torch_(torch), generation_(exec::fork_generation()) {}

PinnedMemory::Block PinnedMemory::allocate(std::size_t bytes) {
  if (exec::fork_generation() != generation_)
    throw_invalid(
        "page-locked memory cannot be had in a forked process; make the loader there without "
        "pin_memory: {} bytes",
        bytes);
  const auto size = static_cast<std::int64_t>(bytes);
  const std::int64_t stride = 1;
  Block block;
  if (torch_.empty_pinned(1, &size, &stride, torch_.uint8, torch_.cpu, 0, &block.handle) != 0)
    fail("torch could not give page-locked memory", bytes);
  if (torch_.data_pointer(block.handle, &block.data) != 0) {
    free(block);
    fail("torch does not tell where its memory lies", bytes);
  }
  if (reinterpret_cast<std::uintptr_t>(block.data) % 64 != 0) {
    free(block);
    throw Error(ErrorKind::kInternal, "torch's page-locked memory is not aligned to 64 bytes");
  }
  return block;
}

void PinnedMemory::free(const Block& block) noexcept {
  if (exec::fork_generation() == generation_) torch_.delete_tensor(block.handle);
}

// Torch rounds up to a power of two, so that blocks are easily used again.
std::size_t PinnedMemory::taken_bytes(std::size_t bytes) const { return std::bit_ceil(bytes); }

void* PinnedMemory::make_tensor(void* handle, std::size_t bytes) const {
  const auto size = static_cast<std::int64_t>(bytes);
  const std::int64_t stride = 1;
  void* tensor = nullptr;
  if (torch_.view(handle, 1, &size, &stride, 0, &tensor) != 0)
    fail("torch could not make a tensor", bytes);
  return tensor;
}

void PinnedMemory::fail(const char* what, std::size_t bytes) const {
  const char* reason = torch_.last_error == nullptr ? nullptr : torch_.last_error();
  throw Error(ErrorKind::kIo,
              fmt::format("{}: {} bytes; make batch_size or memory_budget smaller, raise the limit "
                          "of locked memory (ulimit -l), or leave pin_memory out; torch says: {}",
                          what, bytes, reason == nullptr ? "see stderr" : reason));
}

}  // namespace cellfeed::loader
