// HDF5's C API as handles and exceptions.
#include "cellfeed/format/h5ad/hdf5_api.h"

#include <algorithm>
#include <cstring>

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

// Where a link led out of the file, on this thread; empty else.
thread_local std::string other_file;

herr_t refuse_external_link(const char*, const char*, const char* file, const char* object,
                            unsigned*, hid_t, void*) {
  other_file = fmt::format("{}:{}", file, object);
  return -1;
}

// How links are followed: not into other files.
hid_t link_access() {
  static const hid_t access = [] {
    const hid_t id = H5Pcreate(H5P_LINK_ACCESS);
    H5Pset_elink_cb(id, refuse_external_link, nullptr);
    return id;
  }();
  return access;
}

std::string file_name(hid_t object) {
  std::string name(1024, '\0');
  const auto length = H5Fget_name(object, name.data(), name.size());
  name.resize(length < 0 ? 0 : std::min(name.size() - 1, static_cast<std::size_t>(length)));
  return name;
}

[[noreturn]] void throw_other_file(hid_t parent, const std::string& name, const char* how,
                                   const std::string& where) {
  throw_error(ErrorKind::kUnsupported, file_name(parent),
              "'{}' {} another file, and nothing outside of a file is read: '{}'; write the data "
              "into one file (adata.write_h5ad)",
              name, how, where);
}

// After a call that failed: says so when a link led out of the file.
void check_link(hid_t parent, const std::string& name) {
  if (other_file.empty()) return;
  H5Eclear2(H5E_DEFAULT);
  throw_other_file(parent, name, "is a link to", std::exchange(other_file, {}));
}

void check_own_storage(hid_t dataset, const std::string& name) {
  const Handle properties(H5Dget_create_plist(dataset));
  if (!properties) return;  // what reads it says why
  std::string other(1024, '\0');
  if (H5Pget_external_count(properties.get()) > 0) {
    H5Pget_external(properties.get(), 0, other.size() - 1, other.data(), nullptr, nullptr);
    throw_other_file(dataset, name, "is stored in", other.c_str());
  }
  if (H5Pget_layout(properties.get()) == H5D_VIRTUAL) {
    H5Pget_virtual_filename(properties.get(), 0, other.data(), other.size() - 1);
    throw_other_file(dataset, name, "is a virtual dataset over", other.c_str());
  }
}

bool has_link(hid_t parent, const std::string& name) {
  const htri_t found = H5Lexists(parent, name.c_str(), link_access());
  check_link(parent, name);
  return found > 0;
}

Handle open_attribute(hid_t object, const char* name) {
  if (H5Aexists(object, name) <= 0) return Handle();
  return Handle(H5Aopen(object, name, H5P_DEFAULT));
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

void check_hdf5(std::int64_t status, ErrorKind kind, const std::string& path,
                const std::string& operation) {
  if (status >= 0) return;
  const std::string message = take_hdf5_message();
  // What the disk refuses says nothing about the data.
  if (const auto reason = system_reason(message))
    throw_error(ErrorKind::kIo, path, "{} failed: {}", operation, *reason);
  throw_error(kind, path, "{} failed in HDF5: {}", operation, message);
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
    if (!has_link(parent, name.substr(0, slash))) return ObjectKind::kMissing;
  if (!has_link(parent, name)) return ObjectKind::kMissing;
  const Handle object(H5Oopen(parent, name.c_str(), link_access()));
  if (!object) {
    check_link(parent, name);
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
  const hid_t id = H5Oopen(parent, name.c_str(), link_access());
  if (id < 0) check_link(parent, name);
  Handle object = check_handle(id, ErrorKind::kCorruptData, path, "opening '" + name + "'");
  if (H5Iget_type(id) == H5I_DATASET) check_own_storage(id, name);
  return object;
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
