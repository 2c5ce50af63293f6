// Elements of variable length, by way of the global heap.
#include "cellfeed/hdf5/variable_length.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "cellfeed/hdf5/global_heap.h"
#include "cellfeed/hdf5/walk_bound.h"

namespace cellfeed::hdf5 {
namespace {

std::string_view text_of(std::span<const std::byte> bytes) {
  const auto end = std::find(bytes.begin(), bytes.end(), std::byte{0});
  return {reinterpret_cast<const char*>(bytes.data()),
          static_cast<std::size_t>(end - bytes.begin())};
}

void append_fixed(const Datatype& type, std::span<const std::byte> elements, Texts& texts) {
  const auto width = static_cast<std::size_t>(type.size);
  for (; !elements.empty(); elements = elements.subspan(width)) {
    std::string_view text = text_of(elements.first(width));
    if (type.padding == StringPadding::kSpacePadded)
      while (text.ends_with(' ')) text.remove_suffix(1);
    texts.append(text);
  }
}

// Where the bytes of an element of variable length lie.
struct Element {
  std::uint32_t length = 0;  // in elements of the base type
  GlobalHeapId id;
};

// None where nothing is stored. element: type.size bytes.
std::optional<Element> read_element(const FileBytes& file, std::span<const std::byte> element) {
  Cursor at(file, Bytes(element, nullptr), 0, "element of variable length");
  Element place;
  place.length = at.u32();
  place.id.collection = at.read_address();
  place.id.index = at.u32();
  if (place.length == 0 || place.id.collection == 0 || place.id.collection == kUndefinedAddress)
    return std::nullopt;
  return place;
}

void append_variable(const FileBytes& file, const Datatype& type,
                     std::span<const std::byte> elements, Texts& texts) {
  const auto width = static_cast<std::size_t>(type.size);
  std::vector<std::optional<Element>> places;
  std::vector<GlobalHeapId> ids;
  for (; !elements.empty(); elements = elements.subspan(width)) {
    places.push_back(read_element(file, elements.first(width)));
    if (places.back()) ids.push_back(places.back()->id);
  }
  GlobalHeap heap(file);
  heap.fetch(ids);
  WalkBound bound(file, "list of texts");
  for (const auto& place : places) {
    if (!place) {
      texts.append({});
      continue;
    }
    const auto object = heap.object(place->id);
    if (place->length > object.size())
      throw_error(ErrorKind::kCorruptData, file.path(),
                  "damaged HDF5 file: a text of {} bytes is stored in {}", place->length,
                  object.size());
    bound.spend(place->length);
    texts.append(text_of(object.first(place->length)));
  }
}

}  // namespace

bool holds_texts(const Datatype& type) {
  return type.type_class == TypeClass::kString || type.is_variable_text();
}

void append_texts(const FileBytes& file, const Datatype& type, std::span<const std::byte> elements,
                  Texts& texts) {
  if (type.type_class == TypeClass::kString)
    append_fixed(type, elements, texts);
  else
    append_variable(file, type, elements, texts);
}

}  // namespace cellfeed::hdf5
