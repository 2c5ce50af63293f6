// libhdf5's C API as handles, for writing: all under one process-wide lock. Thread-safe:
// Hdf5Session serialises; it may be nested, and a fork cannot happen inside one of another thread.
#pragma once

#include <hdf5.h>

#include <optional>
#include <string>
#include <utility>

namespace cellfeed::format::h5ad {

// Holds HDF5 for this thread and keeps it from printing. REQUIRED around every H5 call.
class Hdf5Session {
 public:
  Hdf5Session();
  ~Hdf5Session();
  Hdf5Session(const Hdf5Session&) = delete;
  Hdf5Session& operator=(const Hdf5Session&) = delete;
};

// Owns one HDF5 identifier of any kind.
class Handle {
 public:
  Handle() = default;
  explicit Handle(hid_t id) : id_(id) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~Handle();
  hid_t get() const { return id_; }
  hid_t release() { return std::exchange(id_, H5I_INVALID_HID); }
  explicit operator bool() const { return id_ >= 0; }

 private:
  hid_t id_ = H5I_INVALID_HID;
};

// HDF5's own account of its last error, innermost reason first; clears it.
std::string take_hdf5_message();
// What the operating system said, such as "Input/output error", where the message holds it. The
// rest is a page of addresses, temporary names and the time of day.
std::optional<std::string> system_reason(const std::string& hdf5_message);

}  // namespace cellfeed::format::h5ad
