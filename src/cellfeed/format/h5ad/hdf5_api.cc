// HDF5's C API as handles and exceptions.
#include "cellfeed/format/h5ad/hdf5_api.h"

#include <pthread.h>

#include <cstring>
#include <mutex>

#include "cellfeed/format/h5ad/hdf5_filters.h"

namespace cellfeed::format::h5ad {
namespace {

std::mutex& hdf5_mutex() {
  // Never destroyed: handles may be closed while the process ends.
  static auto* mutex = new std::mutex;
  return *mutex;
}
thread_local int session_depth = 0;

// A child forked while another thread is inside HDF5 would inherit a lock that nobody frees.
void hold_for_fork() {
  if (session_depth == 0) hdf5_mutex().lock();
}
void release_after_fork() {
  if (session_depth == 0) hdf5_mutex().unlock();
}

void start_hdf5() {
  static const bool started = [] {
    pthread_atfork(hold_for_fork, release_after_fork, release_after_fork);
    H5dont_atexit();
    H5open();
    register_read_filters();
    return true;
  }();
  (void)started;
}

constexpr std::size_t kMaxAttributeElements = std::size_t{1} << 24;

herr_t collect_message(unsigned, const H5E_error2_t* error, void* text) {
  auto& message = *static_cast<std::string*>(text);
  if (error->desc == nullptr || std::strlen(error->desc) == 0) return 0;
  if (!message.empty()) message += " < ";
  message += error->desc;
  return 0;
}

// Elements of a string attribute.
std::optional<std::vector<std::string>> read_texts(hid_t attribute) {
  const Handle space(H5Aget_space(attribute));
  const Handle type(H5Aget_type(attribute));
  if (!space || !type) return std::nullopt;
  const hssize_t count = H5Sget_simple_extent_npoints(space.get());
  if (count == 0 || H5Sget_simple_extent_type(space.get()) == H5S_NULL)
    return std::vector<std::string>{};
  if (H5Tget_class(type.get()) != H5T_STRING || count < 0 ||
      static_cast<std::size_t>(count) > kMaxAttributeElements)
    return std::nullopt;
  const auto n = static_cast<std::size_t>(count);
  std::vector<std::string> texts(n);
  if (H5Tis_variable_str(type.get()) > 0) {
    std::vector<char*> pointers(n, nullptr);
    const Handle memory(H5Tcopy(type.get()));
    if (H5Aread(attribute, memory.get(), static_cast<void*>(pointers.data())) < 0)
      return std::nullopt;
    for (std::size_t i = 0; i < n; ++i)
      if (pointers[i] != nullptr) texts[i] = pointers[i];
    H5Dvlen_reclaim(memory.get(), space.get(), H5P_DEFAULT, static_cast<void*>(pointers.data()));
    return texts;
  }
  const std::size_t width = H5Tget_size(type.get());
  if (width == 0 || n > (std::size_t{1} << 28) / width) return std::nullopt;
  std::vector<char> bytes(n * width);
  if (H5Aread(attribute, type.get(), bytes.data()) < 0) return std::nullopt;
  const bool space_padded = H5Tget_strpad(type.get()) == H5T_STR_SPACEPAD;
  for (std::size_t i = 0; i < n; ++i) {
    const char* start = bytes.data() + i * width;
    std::size_t length = strnlen(start, width);
    while (space_padded && length > 0 && start[length - 1] == ' ') --length;
    texts[i].assign(start, length);
  }
  return texts;
}

Handle open_attribute(hid_t object, const char* name) {
  if (H5Aexists(object, name) <= 0) return Handle();
  return Handle(H5Aopen(object, name, H5P_DEFAULT));
}

}  // namespace

Hdf5Session::Hdf5Session() {
  start_hdf5();
  if (session_depth == 0) {
    hdf5_mutex().lock();
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

void check_hdf5(std::int64_t status, ErrorKind kind, const std::string& path,
                const std::string& operation) {
  if (status < 0) throw_error(kind, path, "{} failed in HDF5: {}", operation, take_hdf5_message());
}

Handle check_handle(hid_t id, ErrorKind kind, const std::string& path,
                    const std::string& operation) {
  check_hdf5(id, kind, path, operation);
  return Handle(id);
}

ObjectKind object_kind(hid_t parent, const std::string& name) {
  // H5Lexists fails unless every step before the last is there.
  for (std::size_t slash = name.find('/'); slash != std::string::npos;
       slash = name.find('/', slash + 1))
    if (H5Lexists(parent, name.substr(0, slash).c_str(), H5P_DEFAULT) <= 0)
      return ObjectKind::kMissing;
  if (H5Lexists(parent, name.c_str(), H5P_DEFAULT) <= 0) return ObjectKind::kMissing;
  const Handle object(H5Oopen(parent, name.c_str(), H5P_DEFAULT));
  if (!object) {
    H5Eclear2(H5E_DEFAULT);
    return ObjectKind::kOther;
  }
  switch (H5Iget_type(object.get())) {
    case H5I_GROUP:
      return ObjectKind::kGroup;
    case H5I_DATASET:
      return ObjectKind::kDataset;
    default:
      return ObjectKind::kOther;
  }
}

std::vector<std::string> member_names(hid_t group, const std::string& path) {
  std::vector<std::string> names;
  const auto append = [](hid_t, const char* name, const H5L_info_t*, void* out) -> herr_t {
    static_cast<std::vector<std::string>*>(out)->emplace_back(name);
    return 0;
  };
  check_hdf5(H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, nullptr, append, &names),
             ErrorKind::kCorruptData, path, "listing a group");
  return names;
}

Handle open_object(hid_t parent, const std::string& path, const std::string& name) {
  return check_handle(H5Oopen(parent, name.c_str(), H5P_DEFAULT), ErrorKind::kCorruptData, path,
                      "opening '" + name + "'");
}

std::optional<std::string> text_attribute(hid_t object, const char* name) {
  const auto texts = texts_attribute(object, name);
  if (!texts || texts->size() != 1) return std::nullopt;
  return texts->front();
}

std::optional<std::vector<std::string>> texts_attribute(hid_t object, const char* name) {
  const Handle attribute = open_attribute(object, name);
  if (!attribute) return std::nullopt;
  auto texts = read_texts(attribute.get());
  if (!texts) H5Eclear2(H5E_DEFAULT);
  return texts;
}

std::optional<std::vector<std::int64_t>> integers_attribute(hid_t object, const char* name) {
  const Handle attribute = open_attribute(object, name);
  if (!attribute) return std::nullopt;
  const Handle space(H5Aget_space(attribute.get()));
  const Handle type(H5Aget_type(attribute.get()));
  const hssize_t count = H5Sget_simple_extent_npoints(space.get());
  const H5T_class_t kind = H5Tget_class(type.get());
  // A NumPy bool is an enum of one byte; HDF5 does not convert enums to integers, but its own bytes
  // do.
  if (count < 0 || static_cast<std::size_t>(count) > kMaxAttributeElements ||
      (kind != H5T_INTEGER && kind != H5T_ENUM))
    return std::nullopt;
  std::vector<std::int64_t> values(static_cast<std::size_t>(count));
  if (values.empty()) return values;
  if (kind == H5T_ENUM) {
    if (H5Tget_size(type.get()) != 1) return std::nullopt;
    std::vector<std::int8_t> bytes(values.size());
    if (H5Aread(attribute.get(), type.get(), bytes.data()) < 0) return std::nullopt;
    values.assign(bytes.begin(), bytes.end());
    return values;
  }
  if (H5Aread(attribute.get(), H5T_NATIVE_INT64, values.data()) < 0) {
    H5Eclear2(H5E_DEFAULT);
    return std::nullopt;
  }
  return values;
}

std::vector<std::int64_t> extents(const Handle& space) {
  const int rank = H5Sget_simple_extent_ndims(space.get());
  if (rank < 0) return {};
  std::vector<hsize_t> lengths(static_cast<std::size_t>(rank));
  if (rank > 0) H5Sget_simple_extent_dims(space.get(), lengths.data(), nullptr);
  return {lengths.begin(), lengths.end()};
}

}  // namespace cellfeed::format::h5ad
