// ChunkSource: the chunks of an array as one source of bytes, whatever they lie in: value i, which
// is a chunk or a shard of them, begins at i times a fixed length. Thread-safe; no lock is held
// while anything is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "cellfeed/base/fork_safe_mutex.h"
#include "cellfeed/io/byte_source.h"
#include "cellfeed/zarr/array_metadata.h"
#include "cellfeed/zarr/key_store.h"

namespace cellfeed::zarr {

enum class ChunkState {
  kWritten,
  kNoKey,    // nothing is there: never written, or lost
  kLeftOut,  // the index of its shard says so
};

struct ChunkPlace {
  ChunkState state = ChunkState::kNoKey;
  io::ByteRange range;  // in the ChunkSource
};

class ChunkSource final : public io::ByteSource {
 public:
  // path: of the array in the store. Throws kUnsupported for more chunks than there are numbers
  // for.
  ChunkSource(std::shared_ptr<const KeyStore> store, std::string path, ArrayMetadata array);

  const ArrayMetadata& array() const { return array_; }
  std::int64_t n_chunks() const { return n_chunks_; }
  bool is_local() const { return store_->is_local(); }
  // The key that a chunk lies under.
  std::string key_of_chunk(std::int64_t chunk) const;
  std::string file_of_chunk(std::int64_t chunk) const {
    return store_->file_of(key_of_chunk(chunk));
  }
  // Chunks are numbered in row-major order. Throws kCorruptData naming the key.
  ChunkPlace locate(std::int64_t chunk) const;
  // What is stored at a place, where it lies in memory; else empty.
  std::span<const std::byte> mapped(const io::ByteRange& range) const;
  // Of a chunk whose stored bytes these are: all its elements. Throws kCorruptData naming the key.
  void decode(std::int64_t chunk, std::span<const std::byte> stored,
              std::span<std::byte> out) const;
  // The same in memory of its own; where elements have any length, at most max_bytes.
  std::vector<std::byte> decode(std::int64_t chunk, std::span<const std::byte> stored,
                                std::size_t max_bytes) const;

  const std::string& path() const override { return store_->path(); }
  std::int64_t size() const override { return n_values_ * span_; }
  std::string_view backend_name() const override { return "zarr"; }
  void read(std::int64_t offset, std::span<std::byte> out) const override;
  std::unique_ptr<io::PendingReads> begin_read_many(
      std::span<const io::ReadRequest> requests) const override;
  void read_many(std::span<const io::ReadRequest> requests) const override;
  io::ReadCosts costs() const override;

 private:
  using Source = std::shared_ptr<const io::ByteSource>;
  using Index = std::shared_ptr<const std::vector<std::byte>>;
  struct Opened {
    Source source;  // null where it is opened for each read
    Index index;    // of a shard, once it was read
    std::list<std::int64_t>::iterator use;
  };
  struct Address {
    std::int64_t value = 0;
    std::int64_t inner = 0;  // in its shard
  };

  Address address_of(std::int64_t chunk) const;
  std::string key_of_value(std::int64_t value) const;
  std::optional<ValueStatus> status_of(std::int64_t value) const;
  Source open(std::int64_t value) const;
  Source open_anew(std::int64_t value, const ValueStatus& status) const;
  Index index_of(std::int64_t value) const;
  ChunkPlace locate_in_shard(const Address& address, const ValueStatus& status) const;
  Source find_opened(std::int64_t value) const;
  void keep(std::int64_t value, Source source, Index index) const;
  template <typename Decode>
  auto with_key(std::int64_t chunk, const Decode& decode) const;
  [[noreturn]] void throw_changed(const std::string& key) const;

  const std::shared_ptr<const KeyStore> store_;
  const std::string name_;
  const ArrayMetadata array_;
  std::int64_t n_chunks_ = 1;
  std::int64_t n_values_ = 1;
  std::int64_t n_inner_ = 1;
  std::int64_t span_ = 0;

  mutable ForkSafeMutex mutex_;  // guards what follows; not held while reading
  mutable std::unordered_map<std::int64_t, std::optional<ValueStatus>> statuses_;
  mutable std::unordered_map<std::int64_t, Opened> opened_;
  mutable std::size_t index_bytes_ = 0;
  mutable std::list<std::int64_t> uses_;  // of opened_, the last used one first
};

}  // namespace cellfeed::zarr
