// A libtorch for tests of machines without a GPU: what it calls page-locked is ordinary memory of
// the real torch. It counts the tensors it gives, and refuses them when told to.
#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

namespace {

template <typename Function>
Function real(const char* name) {
  static void* torch = dlopen(REAL_TORCH, RTLD_NOW | RTLD_LOCAL);
  void* found = torch == nullptr ? nullptr : dlsym(torch, name);
  if (found == nullptr) std::abort();
  return reinterpret_cast<Function>(found);
}

using Number = std::int32_t (*)();
using Empty = std::int32_t (*)(std::int64_t, const std::int64_t*, const std::int64_t*, std::int32_t,
                               std::int32_t, std::int32_t, void**);
using View = std::int32_t (*)(void*, std::int64_t, const std::int64_t*, const std::int64_t*,
                              std::int64_t, void**);
using Data = std::int32_t (*)(void*, void**);
using Delete = std::int32_t (*)(void*);

std::atomic<std::int64_t> live{0};
std::atomic<std::int64_t> made{0};
std::atomic<bool> refuses{false};

}  // namespace

extern "C" {

std::int64_t live_tensors() { return live; }
std::int64_t made_tensors() { return made; }
void refuse(bool value) { refuses = value; }

std::int32_t aoti_torch_dtype_uint8() { return real<Number>("aoti_torch_dtype_uint8")(); }
std::int32_t aoti_torch_device_type_cpu() { return real<Number>("aoti_torch_device_type_cpu")(); }
const char* torch_exception_get_what_without_backtrace() { return "out of lockable memory"; }

std::int32_t aoti_torch_empty_strided_pinned(std::int64_t n, const std::int64_t* sizes,
                                             const std::int64_t* strides, std::int32_t dtype,
                                             std::int32_t type, std::int32_t index, void** out) {
  if (refuses) return 1;
  ++live;
  ++made;
  return real<Empty>("aoti_torch_empty_strided")(n, sizes, strides, dtype, type, index, out);
}
std::int32_t aoti_torch_get_data_ptr(void* tensor, void** out) {
  return real<Data>("aoti_torch_get_data_ptr")(tensor, out);
}
std::int32_t aoti_torch__reinterpret_tensor(void* tensor, std::int64_t n, const std::int64_t* sizes,
                                            const std::int64_t* strides, std::int64_t offset,
                                            void** out) {
  return real<View>("aoti_torch__reinterpret_tensor")(tensor, n, sizes, strides, offset, out);
}
std::int32_t aoti_torch_delete_tensor_object(void* tensor) {
  --live;
  return real<Delete>("aoti_torch_delete_tensor_object")(tensor);
}
}
