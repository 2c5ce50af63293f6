// Writing HDF5: attributes, groups and types.
#include "cellfeed/format/h5ad/hdf5_write.h"

namespace cellfeed::format::h5ad {
namespace {

Handle link_properties() {
  Handle properties(H5Pcreate(H5P_LINK_CREATE));
  H5Pset_create_intermediate_group(properties.get(), 1);
  H5Pset_char_encoding(properties.get(), H5T_CSET_UTF8);
  return properties;
}

}  // namespace

void check_write(std::int64_t status, const std::string& path, const std::string& operation) {
  if (status >= 0) return;
  const std::string reason = take_hdf5_message();
  if (reason.find("No space left") != std::string::npos ||
      reason.find("quota") != std::string::npos)
    throw_error(
        ErrorKind::kNoSpace, path,
        "the disk is full; free some space or choose another target, then run again ({} failed)",
        operation);
  throw_error(ErrorKind::kIo, path, "{} failed: {}", operation,
              system_reason(reason).value_or(reason));
}

Handle check_written(hid_t id, const std::string& path, const std::string& operation) {
  check_write(id, path, operation);
  return Handle(id);
}

void write_attribute(hid_t object, const std::string& path, const char* name, hid_t file_type,
                     hid_t memory_type, hid_t space, const void* values) {
  const std::string operation = fmt::format("writing attribute '{}'", name);
  const Handle attribute = check_written(
      H5Acreate2(object, name, file_type, space, H5P_DEFAULT, H5P_DEFAULT), path, operation);
  check_write(H5Awrite(attribute.get(), memory_type, values), path, operation);
}

Handle file_type(DType dtype) {
  switch (dtype) {
    case DType::kBool: {
      Handle type(H5Tenum_create(H5T_STD_I8LE));
      const std::int8_t values[] = {0, 1};
      H5Tenum_insert(type.get(), "FALSE", &values[0]);
      H5Tenum_insert(type.get(), "TRUE", &values[1]);
      return type;
    }
    case DType::kU8:
      return Handle(H5Tcopy(H5T_STD_U8LE));
    case DType::kI8:
      return Handle(H5Tcopy(H5T_STD_I8LE));
    case DType::kU16:
      return Handle(H5Tcopy(H5T_STD_U16LE));
    case DType::kI16:
      return Handle(H5Tcopy(H5T_STD_I16LE));
    case DType::kU32:
      return Handle(H5Tcopy(H5T_STD_U32LE));
    case DType::kI32:
      return Handle(H5Tcopy(H5T_STD_I32LE));
    case DType::kU64:
      return Handle(H5Tcopy(H5T_STD_U64LE));
    case DType::kI64:
      return Handle(H5Tcopy(H5T_STD_I64LE));
    case DType::kF32:
      return Handle(H5Tcopy(H5T_IEEE_F32LE));
    case DType::kF64:
      return Handle(H5Tcopy(H5T_IEEE_F64LE));
  }
  throw Error(ErrorKind::kInternal, "unknown dtype");
}

// The files of this project are little-endian, and so are the machines it runs on.
Handle memory_type(DType dtype) { return file_type(dtype); }

Handle string_type() {
  Handle type(H5Tcopy(H5T_C_S1));
  H5Tset_size(type.get(), H5T_VARIABLE);
  H5Tset_cset(type.get(), H5T_CSET_UTF8);
  return type;
}

void write_text_attribute(hid_t object, const std::string& path, const char* name,
                          const std::string& text) {
  const Handle type = string_type();
  const Handle space(H5Screate(H5S_SCALAR));
  const char* pointer = text.c_str();
  write_attribute(object, path, name, type.get(), type.get(), space.get(),
                  static_cast<const void*>(&pointer));
}

void write_texts_attribute(hid_t object, const std::string& path, const char* name,
                           const std::vector<std::string>& texts) {
  const Handle type = string_type();
  const auto count = static_cast<hsize_t>(texts.size());
  const Handle space(H5Screate_simple(1, &count, nullptr));
  std::vector<const char*> pointers;
  for (const std::string& text : texts) pointers.push_back(text.c_str());
  // HDF5 wants a buffer even for no elements.
  if (texts.empty()) pointers.push_back("");
  write_attribute(object, path, name, type.get(), type.get(), space.get(),
                  static_cast<const void*>(pointers.data()));
}

void write_integers_attribute(hid_t object, const std::string& path, const char* name,
                              const std::vector<std::int64_t>& values) {
  const auto count = static_cast<hsize_t>(values.size());
  const Handle space(H5Screate_simple(1, &count, nullptr));
  write_attribute(object, path, name, H5T_STD_I64LE, H5T_NATIVE_INT64, space.get(), values.data());
}

void write_bool_attribute(hid_t object, const std::string& path, const char* name, bool value) {
  const Handle type = file_type(DType::kBool);
  const Handle space(H5Screate(H5S_SCALAR));
  const std::int8_t byte = value ? 1 : 0;
  write_attribute(object, path, name, type.get(), type.get(), space.get(), &byte);
}

void write_encoding(hid_t object, const std::string& path, const std::string& type,
                    const std::string& version) {
  write_text_attribute(object, path, "encoding-type", type);
  write_text_attribute(object, path, "encoding-version", version);
}

Handle copied_properties(const std::vector<hsize_t>& chunk) {
  constexpr unsigned kLevel = 4;
  Handle properties(H5Pcreate(H5P_DATASET_CREATE));
  H5Pset_obj_track_times(properties.get(), false);
  if (chunk.empty()) return properties;
  H5Pset_chunk(properties.get(), static_cast<int>(chunk.size()), chunk.data());
  H5Pset_deflate(properties.get(), kLevel);
  return properties;
}

void write_rows(hid_t dataset, hid_t memory_type, const std::vector<hsize_t>& shape, hsize_t begin,
                hsize_t n, const void* elements, const std::string& path,
                const std::string& operation) {
  std::vector<hsize_t> first(shape.size(), 0), count = shape;
  first[0] = begin;
  count[0] = n;
  const auto rank = static_cast<int>(shape.size());
  const Handle space(H5Screate_simple(rank, shape.data(), nullptr));
  const Handle piece(H5Screate_simple(rank, count.data(), nullptr));
  check_write(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, first.data(), nullptr, count.data(),
                                  nullptr),
              path, operation);
  check_write(H5Dwrite(dataset, memory_type, piece.get(), space.get(), H5P_DEFAULT, elements), path,
              operation);
}

Handle open_written(hid_t parent, const std::string& path, const std::string& name) {
  return check_written(H5Oopen(parent, name.c_str(), H5P_DEFAULT), path, "opening '" + name + "'");
}

void remove_written(hid_t parent, const std::string& path, const std::string& name) {
  check_write(H5Ldelete(parent, name.c_str(), H5P_DEFAULT), path, "removing '" + name + "'");
}

bool remove_if_broken(hid_t parent, const std::string& path, const std::string& name,
                      const std::string& encoding, std::size_t n_before,
                      std::vector<std::string>& left_out) {
  const bool is_one_object =
      !encoding.empty() && encoding != "dict" && encoding != "anndata" && encoding != "raw";
  if (!is_one_object || left_out.size() == n_before) return false;
  remove_written(parent, path, name);
  left_out.resize(n_before + 1);
  left_out.back() = name + ", which would be broken without " + left_out.back();
  return true;
}

Handle create_group(hid_t parent, const std::string& path, const std::string& name) {
  const Handle links = link_properties();
  return check_written(H5Gcreate2(parent, name.c_str(), links.get(), H5P_DEFAULT, H5P_DEFAULT),
                       path, "making group '" + name + "'");
}

void move_link(hid_t parent, const std::string& path, const std::string& from,
               const std::string& to) {
  const Handle links = link_properties();
  check_write(H5Lmove(parent, from.c_str(), parent, to.c_str(), links.get(), H5P_DEFAULT), path,
              "moving '" + from + "' to '" + to + "'");
}

}  // namespace cellfeed::format::h5ad
