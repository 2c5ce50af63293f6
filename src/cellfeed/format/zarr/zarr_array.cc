#include "cellfeed/format/zarr/zarr_array.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/format/open_side_by_side.h"
#include "cellfeed/matrix/buffer.h"

namespace cellfeed::format::zarr {
namespace {

namespace zr = cellfeed::zarr;

// The table of their places takes 4 GiB of addresses then, and memory for what is touched.
constexpr std::int64_t kMaxZarrChunks = std::int64_t{1} << 28;

chunked::ArrayDescription describe_zarr(const std::string& path, const std::string& name,
                                        const zr::ArrayMetadata& array, const ArrayUse& use) {
  if (array.shape.size() != use.rank)
    throw_error(ErrorKind::kCorruptData, path, "must have {}: '{}' has {}",
                use.rank == 1 ? "one dimension" : fmt::format("{} dimensions", use.rank), name,
                array.shape.size());
  std::int64_t n_chunks = 1;
  for (std::size_t d = 0; d < use.rank; ++d)
    n_chunks *= array.shape[d] / array.inner_shape()[d] + 1;
  if (n_chunks > kMaxZarrChunks)
    throw_error(ErrorKind::kUnsupported, path, "the zarr array '{}' has too many chunks: {}", name,
                n_chunks);
  return {.path = path,
          .name = name,
          .key = use.key,
          .element_bytes = array.type.bytes,
          .shape = array.shape,
          .chunk_shape = array.inner_shape(),
          .is_mapped = false,
          .fill = array.fill};
}

}  // namespace

StoredNumber number_of(const zr::DataType& type, const std::string& path, const std::string& name) {
  switch (type.kind) {
    case zr::TypeKind::kBoolean:
      return DType::kBool;
    case zr::TypeKind::kInteger:
    case zr::TypeKind::kUnsigned: {
      StoredNumber number = integer_dtype(static_cast<std::uint64_t>(type.bytes),
                                          type.kind == zr::TypeKind::kInteger);
      number.is_big_endian = type.is_big_endian;
      return number;
    }
    case zr::TypeKind::kFloat: {
      StoredNumber number = type.bytes == 8 ? DType::kF64 : DType::kF32;
      number.bytes = type.bytes;
      number.is_big_endian = type.is_big_endian;
      return number;
    }
    default:
      throw_error(ErrorKind::kUnsupported, path,
                  "an array that is not of numbers is not readable as matrix data: '{}' is of type "
                  "{}",
                  name, type.text);
  }
}

ZarrArray::ZarrArray(const zr::Hierarchy& store, const std::string& name, zr::ArrayMetadata array,
                     const ArrayUse& use)
    : StoredArray(describe_zarr(store.store().path(), name, array, use)),
      store_(store),
      source_(store.shared_store(), name, std::move(array)),
      number_(number_of(source_.array().type, path(), name)),
      missing_(use.missing),
      places_(n_chunks()) {}

std::int64_t ZarrArray::inflating_bytes() const {
  const auto chunk =
      static_cast<std::int64_t>(matrix::block_bytes(static_cast<std::size_t>(chunk_bytes())));
  // What is stored is read beside it.
  return chunk * (1 + source_.array().codecs.n_buffers());
}

// Nothing of a network is looked at for this.
std::int64_t ZarrArray::stored_bytes() const {
  constexpr std::int64_t kLookedAt = 16;
  const std::int64_t n = std::min(n_chunks(), kLookedAt);
  if (n == 0 || !source_.is_local()) return 0;
  double bytes = 0;
  for (std::int64_t i = 0; i < n; ++i)
    bytes += static_cast<double>(source_.locate(i * (n_chunks() / n)).range.length);
  return static_cast<std::int64_t>(bytes / static_cast<double>(n) *
                                   static_cast<double>(n_chunks()));
}

void ZarrArray::locate_chunks(std::span<const std::int64_t> chunks) const {
  std::vector<std::int64_t> unknown;
  for (const std::int64_t chunk : chunks)
    if (!places_.has(chunk)) unknown.push_back(chunk);
  wait_side_by_side(std::ssize(unknown), source_.is_local(),
                    [&](std::int64_t i) { locate(unknown[static_cast<std::size_t>(i)]); });
}

void ZarrArray::locate(std::int64_t chunk) const {
  const zr::ChunkPlace place = source_.locate(chunk);
  if (place.state == zr::ChunkState::kNoKey && missing_ == MissingChunks::kDamage) {
    store_.require_unchanged();
    throw_error(ErrorKind::kCorruptData, path(),
                "a chunk is missing: there is no '{}'; copy the store again, or, where its values "
                "are all 0, write it with empty chunks "
                "(zarr.config.set({{'array.write_empty_chunks': True}}))",
                source_.key_of_chunk(chunk));
  }
  if (place.state != zr::ChunkState::kWritten) return places_.set(chunk, {});
  const auto stored = static_cast<std::uint64_t>(place.range.length);
  const auto n_bytes = static_cast<std::uint64_t>(chunk_bytes());
  if (stored > zr::CodecChain::most_stored_bytes(n_bytes) ||
      !source_.array().codecs.can_expand(stored, n_bytes))
    throw_error(ErrorKind::kCorruptData, path(),
                "damaged chunk: {} bytes in '{}' cannot be the {} of a chunk", stored,
                source_.key_of_chunk(chunk), n_bytes);
  places_.set(chunk, {.is_written = true, .offset = place.range.offset, .length = stored});
}

io::ByteRange ZarrArray::stored_range(std::int64_t chunk) const {
  const auto place = places_.get(chunk);
  return {place.offset, static_cast<std::int64_t>(place.length)};
}

const std::byte* ZarrArray::mapped(std::int64_t chunk) const {
  return source_.mapped(stored_range(chunk)).data();
}

void ZarrArray::inflate_written(std::int64_t chunk, std::span<const std::byte> stored,
                                std::span<std::byte> out) const {
  if (stored.data() != nullptr) return source_.decode(chunk, stored, out);
  thread_local matrix::Buffer<std::byte> buffer;
  buffer.reset(stored.size());
  source_.read(stored_range(chunk).offset, buffer.span());
  source_.decode(chunk, buffer.span(), out);
}

}  // namespace cellfeed::format::zarr
