// KeyStore: where the values of a zarr store lie: in the files of a directory, or in a zip file.
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/io/byte_source.h"
#include "cellfeed/io/seen_files.h"

namespace cellfeed::zarr {

// Of one value. Where it is another one later, the value was written to.
struct ValueStatus {
  std::int64_t bytes = 0;
  std::int64_t modified_ns = 0;  // 0 where that is not known
  bool operator==(const ValueStatus&) const = default;
};

class KeyStore {
 public:
  virtual ~KeyStore() = default;
  virtual const std::string& path() const = 0;
  // Whether values are asked for without waiting for a network.
  virtual bool is_local() const = 0;
  // All of it, as far as that is known without looking.
  virtual std::int64_t size() const = 0;
  // Of a key: for whoever names the files that something is read from.
  virtual std::string file_of(const std::string& key) const = 0;
  // None where there is no such key. Throws what looking for it throws.
  virtual std::optional<ValueStatus> status(const std::string& key) const = 0;
  // Whether a value that looks so was written after the store was opened, as far as times tell.
  virtual bool is_since_opened(const ValueStatus&) const { return false; }
  // Null where there is no such key. Throws what opening it throws.
  virtual std::shared_ptr<const io::ByteSource> open(const std::string& key) const = 0;
  // Of a value that was read just now: what it is then is compared with what was seen of it.
  virtual void look_again(const std::string&) const {}
  // What its files were before anything was read of them, where somebody asked for that; else null.
  virtual std::shared_ptr<const io::SeenFiles> seen() const { return nullptr; }
  // Where the value lies in memory for as long as the store is open; empty where it does not.
  virtual std::span<const std::byte> map(const std::string&) const { return {}; }
  // Throws kCorruptData where a whole value is not what was written, as far as the store knows.
  // REQUIRES: there is such a key.
  virtual void check(const std::string&, std::span<const std::byte>) const {}
  // What stands directly below a key: "obs", ".zattrs", ascending.
  virtual std::vector<std::string> names_in(const std::string& key) const = 0;
  // Throws kCorruptData where it was written to since it was opened, as far as that is known of all
  // of it.
  virtual void require_unchanged() const = 0;
  virtual void release_pages() const {}
};

// Opens a directory, of any file system, or a zip file. Throws kNotFound, kIo or kCorruptData.
// seen: what each value is compared with, before and after it is read; null: with nothing.
std::shared_ptr<const KeyStore> open_directory_store(
    const std::string& path, std::shared_ptr<const io::SeenFiles> seen = nullptr);
std::shared_ptr<const KeyStore> open_zip_store(const std::string& path);

// Whether it is one that leads nowhere else: no part of it is empty, "." or "..".
bool is_sound_key(const std::string& key);

// A whole value as text. Throws kCorruptData where there are more bytes than metadata ever has.
// None where there is no such key.
std::optional<std::string> read_text(const KeyStore& store, const std::string& key);

}  // namespace cellfeed::zarr
