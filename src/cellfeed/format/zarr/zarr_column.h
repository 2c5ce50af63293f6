// ZarrColumn: an array of a zarr store as the values of a column. Thread-safe. Lifetime: the
// store's Hierarchy outlives it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/base/fork_safe_mutex.h"
#include "cellfeed/format/column_source.h"
#include "cellfeed/zarr/chunk_source.h"
#include "cellfeed/zarr/hierarchy.h"

namespace cellfeed::format::zarr {

class ZarrColumn final : public ColumnSource {
 public:
  // REQUIRES: array is at `name`.
  ZarrColumn(const cellfeed::zarr::Hierarchy& store, const std::string& name,
             cellfeed::zarr::ArrayMetadata array);
  // One field of an array of records. Throws kUnsupported where the records have a field whose
  // length is not known.
  ZarrColumn(const cellfeed::zarr::Hierarchy& store, const std::string& name,
             cellfeed::zarr::ArrayMetadata array, const std::string& field);

  const std::string& name() const override { return name_; }
  std::int64_t length() const override;
  bool holds_integers() const override;
  std::shared_ptr<arrow::Array> read(std::int64_t begin, std::int64_t end) const override;
  std::shared_ptr<arrow::Array> read_all() const override;

 private:
  using Bytes = std::shared_ptr<const std::vector<std::byte>>;
  // Elements [first, first + n) of a chunk, which is missing where its bytes are null.
  struct Part {
    Bytes bytes;
    std::int64_t chunk = 0;
    std::int64_t first = 0;
    std::int64_t n = 0;
  };

  void require_readable() const;
  std::shared_ptr<arrow::Array> read_checked(std::int64_t begin, std::int64_t end) const;
  std::vector<Part> read_parts(std::int64_t begin, std::int64_t end) const;
  Bytes decode(std::int64_t chunk, std::span<const std::byte> stored) const;
  std::vector<std::byte> values_of(std::vector<std::byte> elements) const;
  Bytes find_kept(std::int64_t chunk) const;
  std::shared_ptr<arrow::Array> make_numbers(std::span<const Part> parts, std::int64_t n) const;
  std::shared_ptr<arrow::Array> make_texts(std::span<const Part> parts) const;

  const cellfeed::zarr::Hierarchy& store_;
  const std::string name_;
  const cellfeed::zarr::ChunkSource source_;
  cellfeed::zarr::DataType type_;  // of a value
  bool is_record_ = false;         // the value is one field of an element, which lies at
  std::size_t field_offset_ = 0;
  mutable ForkSafeMutex mutex_;  // guards what follows
  // The chunk that was read last, for who reads a column in pieces.
  mutable std::int64_t kept_chunk_ = -1;
  mutable Bytes kept_;
};

}  // namespace cellfeed::format::zarr
