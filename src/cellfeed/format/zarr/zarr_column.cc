#include "cellfeed/format/zarr/zarr_column.h"

#include <arrow/api.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/format/column_values.h"
#include "cellfeed/format/zarr/zarr_array.h"
#include "cellfeed/zarr/chunk_reads.h"
#include "cellfeed/zarr/texts.h"

namespace cellfeed::format::zarr {
namespace {

namespace zr = cellfeed::zarr;

// Of a larger chunk, who reads it in pieces decodes it for each.
constexpr std::size_t kMaxKeptBytes = 8 << 20;

std::shared_ptr<arrow::Array> finish_column(arrow::ArrayBuilder& builder) {
  std::shared_ptr<arrow::Array> array;
  check_arrow(builder.Finish(&array));
  return array;
}

}  // namespace

ZarrColumn::ZarrColumn(const zr::Hierarchy& store, const std::string& name, zr::ArrayMetadata array)
    : store_(store),
      name_(name),
      source_(store.shared_store(), name, std::move(array)),
      type_(source_.array().type) {
  require_readable();
}

ZarrColumn::ZarrColumn(const zr::Hierarchy& store, const std::string& name, zr::ArrayMetadata array,
                       const std::string& field)
    : store_(store),
      name_(name + "/" + field),
      source_(store.shared_store(), name, std::move(array)),
      type_(source_.array().type),
      is_record_(true) {
  for (const zr::Field& each : source_.array().type.fields) {
    if (each.name == field) {
      type_ = each.type;
      break;
    }
    field_offset_ += static_cast<std::size_t>(each.type.bytes);
  }
  require_readable();
}

void ZarrColumn::require_readable() const {
  if (type_.is_number() || type_.holds_texts()) return;
  throw_error(ErrorKind::kUnsupported, source_.path(),
              "a column of this zarr type is not readable; drop it and write the store again: "
              "'{}' is of type {}",
              name_, type_.text);
}

std::int64_t ZarrColumn::length() const {
  const auto& shape = source_.array().shape;
  return shape.empty() ? 0 : shape[0];
}

bool ZarrColumn::holds_integers() const {
  const zr::TypeKind kind = type_.kind;
  return kind == zr::TypeKind::kInteger || kind == zr::TypeKind::kUnsigned;
}

std::shared_ptr<arrow::Array> ZarrColumn::read(std::int64_t begin, std::int64_t end) const {
  const std::size_t rank = source_.array().shape.size();
  if (rank != 1)
    throw_error(ErrorKind::kUnsupported, source_.path(),
                "a column must have one dimension: '{}' has {}; drop it and write the store again",
                name_, rank);
  if (begin < 0 || begin > end || end > length())
    throw_error(ErrorKind::kCorruptData, source_.path(),
                "a column is too short: '{}' has {} rows, expected {}", name_, length(), end);
  return read_checked(begin, end);
}

std::shared_ptr<arrow::Array> ZarrColumn::read_all() const {
  return source_.array().shape.empty() ? read_checked(0, 1) : read(0, length());
}

std::shared_ptr<arrow::Array> ZarrColumn::read_checked(std::int64_t begin, std::int64_t end) const {
  const auto parts = read_parts(begin, end);
  return type_.is_number() ? make_numbers(parts, end - begin) : make_texts(parts);
}

ZarrColumn::Bytes ZarrColumn::find_kept(std::int64_t chunk) const {
  const std::lock_guard lock(mutex_);
  return chunk == kept_chunk_ ? kept_ : nullptr;
}

std::vector<ZarrColumn::Part> ZarrColumn::read_parts(std::int64_t begin, std::int64_t end) const {
  const auto& inner = source_.array().inner_shape();
  const std::int64_t step = inner.empty() ? 1 : inner[0];
  const auto width = std::max<std::uint64_t>(source_.array().type.bytes, sizeof(std::uint32_t));
  std::vector<Part> parts;
  std::vector<zr::ChunkPlace> places;
  std::uint64_t stored = 0, n_missing = 0;
  for (std::int64_t at = begin; at < end;) {
    const std::int64_t chunk = at / step;
    const std::int64_t n = std::min(end, (chunk + 1) * step) - at;
    parts.push_back({find_kept(chunk), chunk, at - chunk * step, n});
    places.push_back(source_.locate(chunk));
    stored += static_cast<std::uint64_t>(places.back().range.length);
    if (places.back().state != zr::ChunkState::kWritten) {
      n_missing += static_cast<std::uint64_t>(n);
      if (is_record_)
        throw_error(ErrorKind::kCorruptData, source_.path(), "a chunk is missing: there is no '{}'",
                    source_.key_of_chunk(chunk));
    }
    if (n_missing > kAlwaysReadBytes / width + kMostExpansion * stored)
      throw_error(ErrorKind::kCorruptData, source_.path(),
                  "a column has more rows than a store of this size can hold: '{}'", name_);
    at += n;
  }
  zr::ChunkReads reads(source_);
  std::vector<std::optional<std::size_t>> numbers(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (!parts[i].bytes && places[i].state == zr::ChunkState::kWritten)
      numbers[i] = reads.add(places[i]);
  reads.read();
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (numbers[i]) parts[i].bytes = decode(parts[i].chunk, reads.bytes(*numbers[i]));
  return parts;
}

ZarrColumn::Bytes ZarrColumn::decode(std::int64_t chunk, std::span<const std::byte> stored) const {
  auto decoded = std::make_shared<const std::vector<std::byte>>(
      values_of(source_.decode(chunk, stored, most_expanded_bytes(stored.size()))));
  const std::lock_guard lock(mutex_);
  const bool is_kept = decoded->size() <= kMaxKeptBytes;
  kept_chunk_ = is_kept ? chunk : -1;
  kept_ = is_kept ? decoded : nullptr;
  return decoded;
}

// The field of this column, where elements are records.
std::vector<std::byte> ZarrColumn::values_of(std::vector<std::byte> elements) const {
  if (!is_record_) return elements;
  const auto width = static_cast<std::size_t>(type_.bytes);
  const auto step = static_cast<std::size_t>(source_.array().type.bytes);
  std::vector<std::byte> values(elements.size() / step * width);
  for (std::size_t i = 0; i < values.size() / width; ++i)
    std::memcpy(values.data() + i * width, elements.data() + i * step + field_offset_, width);
  return values;
}

std::shared_ptr<arrow::Array> ZarrColumn::make_numbers(std::span<const Part> parts,
                                                       std::int64_t n) const {
  const zr::ArrayMetadata& array = source_.array();
  const StoredNumber number = number_of(type_, source_.path(), name_);
  const auto width = static_cast<std::size_t>(number.bytes);
  std::vector<std::byte> stored(static_cast<std::size_t>(n) * width);
  std::byte* to = stored.data();
  for (const Part& part : parts) {
    const std::size_t n_bytes = static_cast<std::size_t>(part.n) * width;
    if (part.bytes)
      std::memcpy(to, part.bytes->data() + static_cast<std::size_t>(part.first) * width, n_bytes);
    else if (!array.fill.empty())
      for (std::size_t at = 0; at < n_bytes; at += width)
        std::memcpy(to + at, array.fill.data(), width);
    to += n_bytes;
  }
  return dispatch_dtype(number.dtype, [&](auto zero) -> std::shared_ptr<arrow::Array> {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, bool>) {
      arrow::BooleanBuilder builder;
      for (const std::byte byte : stored) check_arrow(builder.Append(byte != std::byte{0}));
      return finish_column(builder);
    } else {
      using ArrowType = typename arrow::CTypeTraits<T>::ArrowType;
      auto buffer = arrow::AllocateBuffer(n * static_cast<std::int64_t>(sizeof(T)));
      check_arrow(buffer.status());
      number.to_native(stored, reinterpret_cast<std::byte*>((*buffer)->mutable_data()));
      return std::make_shared<typename arrow::TypeTraits<ArrowType>::ArrayType>(
          n, std::shared_ptr<arrow::Buffer>(std::move(*buffer)));
    }
  });
}

std::shared_ptr<arrow::Array> ZarrColumn::make_texts(std::span<const Part> parts) const {
  const zr::ArrayMetadata& array = source_.array();
  const std::string_view missing(reinterpret_cast<const char*>(array.fill.data()),
                                 array.fill.size());
  arrow::StringBuilder builder;
  for (const Part& part : parts) {
    bool is_utf8_throughout = true;
    const auto append = [&](std::string_view text) {
      is_utf8_throughout = is_utf8_throughout && is_utf8(text);
      check_arrow(builder.Append(text));
    };
    bool is_sound = true;
    if (part.bytes)
      is_sound = zr::visit_texts(type_, *part.bytes, part.first, part.n, append);
    else
      for (std::int64_t i = 0; i < part.n; ++i) append(missing);
    if (!is_sound || !is_utf8_throughout)
      throw_error(ErrorKind::kCorruptData, source_.path(), "damaged chunk: '{}' holds {}",
                  source_.key_of_chunk(part.chunk),
                  is_sound ? "texts that are not UTF-8" : "no texts, or fewer than there are rows");
  }
  return finish_column(builder);
}

}  // namespace cellfeed::format::zarr
