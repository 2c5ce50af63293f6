// SequentialReader: the bytes of a source from front to back, inflated where it holds gzip, and
// the lines of a text that is read so. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cellfeed/io/byte_source.h"

namespace cellfeed::io {

class SequentialReader {
 public:
  // gzip is told by the first two bytes, whatever the name. Lifetime: keeps the source.
  explicit SequentialReader(std::shared_ptr<const ByteSource> source);
  ~SequentialReader();

  // Fills `out` as far as there are bytes; fewer only at the end. Throws kCorruptData where the
  // gzip stream is damaged, ends early, or is followed by anything but zeros or another gzip
  // stream; and what the source throws.
  std::size_t read(std::span<std::byte> out);

 private:
  struct Inflating;
  std::size_t read_stored(std::span<std::byte> out);
  std::size_t inflate(std::span<std::byte> out);
  void refill();
  // At the end of a gzip stream: whether there is another.
  bool begin_next_stream();

  const std::shared_ptr<const ByteSource> source_;
  std::int64_t offset_ = 0;  // of what is read next
  std::unique_ptr<Inflating> inflating_;
};

// Line after line of a text; "\n" or "\r\n" ends one, and the last may lack it. A byte order mark
// of UTF-8 in front is left out.
class LineReader {
 public:
  // A line of more bytes throws kCorruptData: nothing that is read here has such.
  LineReader(std::shared_ptr<const ByteSource> source, std::size_t max_line_bytes);

  // Without its end. Empty at the end of the text. Lifetime: of what it returns, the next call.
  std::optional<std::string_view> next();
  // Appends the next lines as they are stored, at most `most`, each with its end: those that are at
  // hand up to the first that may be blank or begins with a space. Returns how many, which may be
  // none: next() goes on there.
  std::int64_t take(std::int64_t most, std::string& text);
  // Of the line that was returned last, from 1.
  std::int64_t number() const { return number_; }

 private:
  bool fill();

  const std::string path_;
  const std::size_t max_line_bytes_;
  SequentialReader reader_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // of what was read and not returned yet
  bool is_at_end_ = false;
  std::int64_t number_ = 0;
};

// By the first two bytes.
bool is_gzip(const ByteSource& source);

// True where a line holds spaces and tabs at most.
bool is_blank(std::string_view line);

}  // namespace cellfeed::io
