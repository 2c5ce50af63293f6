#include "cellfeed/format/h5ad/json_attributes.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "cellfeed/format/h5ad/hdf5_write.h"

namespace cellfeed::format::h5ad {
namespace {

using Json = nlohmann::json;

// An attribute takes no more than 64 KiB of its object's header, where a text takes 16 bytes.
constexpr std::size_t kMaxValues = 4000;

bool has_zero(const std::string& text) { return text.find('\0') != std::string::npos; }

template <typename Is>
bool all_are(const Json& list, const Is& is) {
  return std::ranges::all_of(list, is);
}

bool is_text(const Json& value) { return value.is_string(); }
bool is_flag(const Json& value) { return value.is_boolean(); }
bool is_number(const Json& value) { return value.is_number(); }
bool fits_int64(const Json& value) {
  return value.is_number_integer() &&
         (!value.is_number_unsigned() ||
          value.get<std::uint64_t>() <=
              static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
}

void write_values(hid_t object, const std::string& path, const std::string& name, const Json& list,
                  bool is_list) {
  const auto count = static_cast<hsize_t>(list.size());
  const Handle space(is_list ? H5Screate_simple(1, &count, nullptr) : H5Screate(H5S_SCALAR));
  const auto write = [&](DType dtype, const void* values) {
    const Handle type = file_type(dtype);
    write_attribute(object, path, name.c_str(), type.get(), type.get(), space.get(), values);
  };
  if (all_are(list, is_flag)) {
    std::vector<std::int8_t> flags;
    for (const Json& flag : list) flags.push_back(flag.get<bool>() ? 1 : 0);
    write(DType::kBool, flags.data());
  } else if (all_are(list, fits_int64)) {
    write(DType::kI64, list.get<std::vector<std::int64_t>>().data());
  } else if (all_are(list, [](const Json& value) { return value.is_number_unsigned(); })) {
    write(DType::kU64, list.get<std::vector<std::uint64_t>>().data());
  } else {
    write(DType::kF64, list.get<std::vector<double>>().data());
  }
}

}  // namespace

std::optional<std::string> why_no_attribute(const std::string& name, const Json& value) {
  if (name.empty() || has_zero(name)) return "has no name that HDF5 knows";
  const Json list = value.is_array() ? value : Json::array({value});
  if (list.size() > kMaxValues) return "has more values than HDF5 takes";
  if (all_are(list, is_text)) {
    for (const Json& text : list)
      if (has_zero(text.get_ref<const std::string&>())) return "has a text with a zero byte";
    return std::nullopt;
  }
  if (all_are(list, is_flag) || all_are(list, is_number)) return std::nullopt;
  return "is no text, number or boolean, nor a list of these";
}

void write_json_attribute(hid_t object, const std::string& path, const std::string& name,
                          const Json& value) {
  if (value.is_string())
    return write_text_attribute(object, path, name.c_str(), value.get<std::string>());
  if (value.is_array() && all_are(value, is_text))  // also of none, as anndata's column-order
    return write_texts_attribute(object, path, name.c_str(), value.get<std::vector<std::string>>());
  write_values(object, path, name, value.is_array() ? value : Json::array({value}),
               value.is_array());
}

}  // namespace cellfeed::format::h5ad
