// libhdf5's C API as handles.
#include "cellfeed/format/h5ad/hdf5_api.h"

#include <cstring>
#include <string_view>

#include "cellfeed/base/fork_safe_mutex.h"

namespace cellfeed::format::h5ad {
namespace {

ForkSafeMutex& hdf5_mutex() {
  // Never destroyed: handles may be closed while the process ends.
  static auto* mutex = new ForkSafeMutex;
  return *mutex;
}
thread_local int session_depth = 0;

// REQUIRES: hdf5_mutex is held.
void start_hdf5() {
  static bool is_started = false;
  if (is_started) return;
  H5dont_atexit();
  H5open();
  // No code from where HDF5_PLUGIN_PATH points.
  H5PLset_loading_state(0);
  is_started = true;
}

herr_t collect_message(unsigned, const H5E_error2_t* error, void* text) {
  auto& message = *static_cast<std::string*>(text);
  if (error->desc == nullptr || std::strlen(error->desc) == 0) return 0;
  if (!message.empty()) message += " < ";
  message += error->desc;
  return 0;
}

}  // namespace

Hdf5Session::Hdf5Session() {
  if (session_depth == 0) {
    hdf5_mutex().lock();
    start_hdf5();
    // The error stack is per thread, and prints unless told otherwise.
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  ++session_depth;
}

Hdf5Session::~Hdf5Session() {
  if (--session_depth == 0) hdf5_mutex().unlock();
}

Handle::~Handle() {
  if (id_ < 0) return;
  const Hdf5Session session;
  H5Idec_ref(id_);
}

std::string take_hdf5_message() {
  std::string message;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, collect_message, &message);
  H5Eclear2(H5E_DEFAULT);
  return message.empty() ? "no reason given" : message;
}

std::optional<std::string> system_reason(const std::string& hdf5_message) {
  const std::string_view mark = "error message = '";
  const auto begin = hdf5_message.find(mark);
  if (begin == std::string::npos) return std::nullopt;
  const auto end = hdf5_message.find('\'', begin + mark.size());
  return hdf5_message.substr(begin + mark.size(), end - begin - mark.size());
}

}  // namespace cellfeed::format::h5ad
