#include "cellfeed/format/h5ad/zarr_elements.h"

#include <algorithm>
#include <cstring>

#include "cellfeed/base/error.h"
#include "cellfeed/format/column_values.h"
#include "cellfeed/format/h5ad/hdf5_types.h"
#include "cellfeed/zarr/texts.h"

namespace cellfeed::format::h5ad {
namespace {

namespace zr = cellfeed::zarr;
using zr::TypeKind;

// UTF-32 is no type of HDF5.
bool has_pointers(const zr::DataType& type) {
  return type.kind == TypeKind::kText || type.kind == TypeKind::kUtf32;
}

std::size_t memory_bytes(const zr::DataType& type) {
  return has_pointers(type) ? sizeof(const char*) : static_cast<std::size_t>(type.bytes);
}

hdf5::Datatype number_type(const zr::DataType& type) {
  hdf5::Datatype made;
  made.type_class = type.kind == TypeKind::kFloat ? hdf5::TypeClass::kFloatingPoint
                                                  : hdf5::TypeClass::kFixedPoint;
  made.size = static_cast<std::uint64_t>(type.bytes);
  made.is_big_endian = type.is_big_endian;
  made.is_signed = type.kind != TypeKind::kUnsigned;
  return made;
}

hdf5::Datatype datatype_of(const zr::DataType& type) {
  hdf5::Datatype made = number_type(type);
  switch (type.kind) {
    case TypeKind::kBoolean:
      made.base = std::make_shared<const hdf5::Datatype>(number_type(type));
      made.type_class = hdf5::TypeClass::kEnumerated;
      made.enum_names = {"FALSE", "TRUE"};
      made.enum_values = {std::byte{0}, std::byte{1}};
      break;
    case TypeKind::kBytes:
      made.type_class = hdf5::TypeClass::kString;
      made.padding = hdf5::StringPadding::kZeroPadded;
      break;
    case TypeKind::kUtf32:
    case TypeKind::kText:
      made.type_class = hdf5::TypeClass::kVariableLength;
      made.is_text = made.is_utf8 = true;
      break;
    default:
      break;
  }
  return made;
}

Handle record_type(const zr::DataType& record) {
  std::size_t bytes = 0;
  for (const zr::Field& field : record.fields) bytes += memory_bytes(field.type);
  Handle made(H5Tcreate(H5T_COMPOUND, bytes));
  std::size_t at = 0;
  for (const zr::Field& field : record.fields) {
    H5Tinsert(made.get(), field.name.c_str(), at, element_type(datatype_of(field.type)).get());
    at += memory_bytes(field.type);
  }
  return made;
}

// Pointers to texts, in the order in which they were put there.
class Writer {
 public:
  Writer(std::vector<std::byte>& elements, std::vector<std::string>& texts)
      : elements_(elements), texts_(texts) {}
  void put(std::span<const std::byte> bytes) {
    elements_.insert(elements_.end(), bytes.begin(), bytes.end());
  }
  void put_text(std::string text) {
    places_.push_back(elements_.size());
    elements_.resize(elements_.size() + sizeof(const char*));
    texts_.push_back(std::move(text));
  }
  void finish() {
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      const char* pointer = texts_[i].c_str();
      std::memcpy(elements_.data() + places_[i], &pointer, sizeof pointer);
    }
  }

 private:
  std::vector<std::byte>& elements_;
  std::vector<std::string>& texts_;
  std::vector<std::size_t> places_;
};

// False where it is damaged.
bool put_field(const zr::DataType& type, std::span<const std::byte> bytes, Writer& writer) {
  if (!has_pointers(type)) {
    writer.put(bytes);
    return true;
  }
  return zr::visit_texts(type, bytes, 0, 1,
                         [&](std::string_view text) { writer.put_text(std::string(text)); });
}

bool put_records(const zr::DataType& record, std::span<const std::byte> stored, Writer& writer) {
  for (std::size_t at = 0; at < stored.size();)
    for (const zr::Field& field : record.fields) {
      const auto width = static_cast<std::size_t>(field.type.bytes);
      if (!put_field(field.type, stored.subspan(at, width), writer)) return false;
      at += width;
    }
  return true;
}

}  // namespace

bool is_copied(const zr::DataType& type) { return type.kind != TypeKind::kOther; }

Handle element_type_of(const zr::DataType& type) {
  return type.kind == TypeKind::kRecord ? record_type(type) : element_type(datatype_of(type));
}

const void* ZarrElements::data() const {
  static constexpr std::byte kNothing{};  // HDF5 wants a buffer even for no elements
  return elements_.empty() ? &kNothing : elements_.data();
}

std::unique_ptr<ZarrElements> read_elements(ZarrRows& rows, std::int64_t begin, std::int64_t n,
                                            const std::string& store, const std::string& path) {
  const zr::DataType& type = rows.array().type;
  auto made = std::make_unique<ZarrElements>();
  Writer writer(made->elements_, made->texts_);
  bool is_sound = true;
  if (has_pointers(type)) {
    for (std::string& text : rows.read_texts(begin, n)) writer.put_text(std::move(text));
  } else if (type.kind == TypeKind::kRecord) {
    is_sound = put_records(type, rows.read(begin, n), writer);
  } else {
    made->elements_ = rows.read(begin, n);
  }
  if (!is_sound || !std::ranges::all_of(made->texts_, is_utf8))
    throw_error(ErrorKind::kCorruptData, store, "'{}' holds texts that are not UTF-8", path);
  for (const std::string& text : made->texts_)
    if (text.find('\0') != std::string::npos)
      throw_error(ErrorKind::kUnsupported, store, "a text has a zero byte in it: '{}'", path);
  writer.finish();
  return made;
}

}  // namespace cellfeed::format::h5ad
