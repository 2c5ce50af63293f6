// HDF5's C API as handles and exceptions, all under one process-wide lock. Metadata only: matrix
// data never passes here. Thread-safe: Hdf5Session serialises; it may be nested, and a fork cannot
// happen inside one of another thread.
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cellfeed/base/error.h"

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
// Throws `kind` with the operation and HDF5's account when status is negative.
void check_hdf5(std::int64_t status, ErrorKind kind, const std::string& path,
                const std::string& operation);
Handle check_handle(hid_t id, ErrorKind kind, const std::string& path,
                    const std::string& operation);

// Objects are named by path from the root: "X/indptr". All need a Hdf5Session. What lies in another
// file (external links, external storage, virtual datasets) is refused by name: kUnsupported.
enum class ObjectKind { kMissing, kGroup, kDataset, kOther };
ObjectKind object_kind(hid_t parent, const std::string& name);
std::vector<std::string> member_names(hid_t group, const std::string& path);
Handle open_object(hid_t parent, const std::string& path, const std::string& name);

// Attributes as text, whatever the string type (variable, fixed, padded); nullopt when absent or
// not a string.
std::optional<std::string> text_attribute(hid_t object, const char* name);
// A one-dimensional attribute of strings; an empty one of any type is an empty list (anndata writes
// float64).
std::optional<std::vector<std::string>> texts_attribute(hid_t object, const char* name);
std::optional<std::vector<std::int64_t>> integers_attribute(hid_t object, const char* name);

// Lengths of the dimensions.
std::vector<std::int64_t> extents(const Handle& space);

}  // namespace cellfeed::format::h5ad
