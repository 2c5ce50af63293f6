// GrowingCopy: a copy of an object while it is made. Each part is noted with its checksum once it
// is written, so that where its writer is killed or the link fails, the next one goes on with the
// parts that are there and whole. Not thread-safe. A writer of copies holds the lock of its name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/cloud/cache/kept_copies.h"
#include "cellfeed/cloud/content_checksum.h"
#include "cellfeed/io/byte_source.h"
#include "cellfeed/io/temp_file.h"

namespace cellfeed::cloud {

class GrowingCopy {
 public:
  // A part is as long as what is asked for at once, and held in memory, with the one before it.
  static constexpr std::int64_t kPartBytes = std::int64_t{64} << 20;

  // Takes over what a dead writer left of this copy, as far as its parts are whole.
  // expected: of all its bytes.
  GrowingCopy(io::FileTarget target, std::int64_t part_bytes = kPartBytes,
              std::optional<ContentChecksum> expected = {});
  // Leaves what is there for the next one, unless it was published.
  ~GrowingCopy();
  GrowingCopy(const GrowingCopy&) = delete;
  GrowingCopy& operator=(const GrowingCopy&) = delete;

  std::int64_t size() const { return size_; }  // of whole parts
  // REQUIRES: a part, or the last bytes of the object.
  void append(std::span<const std::byte> part);
  // Writes the note of the copy and gives it its name. Throws kCorruptData where its bytes are not
  // those that were expected, and keeps none. REQUIRES: all of it was appended.
  void publish(const std::string& of_object, const ObjectVersion& version);

 private:
  void take_parts();
  void start_journal();
  void add(std::span<const std::byte> part);
  void require_expected(const std::string& of_object);

  io::FileTarget target_;
  std::string journal_name_;
  std::int64_t part_bytes_;
  std::unique_ptr<io::TempFile> file_;
  std::unique_ptr<io::Journal> journal_;
  CopyNote note_;
  std::optional<ContentCheck> check_;
  std::vector<std::string> checksums_;  // of the parts
  std::int64_t size_ = 0;
};

// All of `remote` from where the copy ends.
void copy_rest(const io::ByteSource& remote, GrowingCopy& copy,
               std::int64_t part_bytes = GrowingCopy::kPartBytes);

// Of copies of this object, whole or not, all but the one of this name and what belongs to it, as
// far as no living writer has them.
void remove_other_versions(const io::Directory& directory, const std::string& of_object,
                           const std::string& but);
// Removes what dead writers of any copy left.
void remove_unfinished(const io::Directory& directory);

}  // namespace cellfeed::cloud
