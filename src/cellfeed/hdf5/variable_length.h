// Elements of variable length, and strings of any kind. HDF5 File Format Specification 4.0, IV.B
// ("Variable-Length"). Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "cellfeed/hdf5/datatype_message.h"
#include "cellfeed/hdf5/file_bytes.h"

namespace cellfeed::hdf5 {

// Texts end to end.
class Texts {
 public:
  std::int64_t size() const { return std::ssize(ends_); }
  std::string_view operator[](std::int64_t i) const {
    const std::size_t begin = i == 0 ? 0 : ends_[static_cast<std::size_t>(i - 1)];
    return std::string_view(bytes_.data(), bytes_.size())
        .substr(begin, ends_[static_cast<std::size_t>(i)] - begin);
  }
  void append(std::string_view text) {
    bytes_.insert(bytes_.end(), text.begin(), text.end());
    ends_.push_back(bytes_.size());
  }

 private:
  std::vector<char> bytes_;
  std::vector<std::size_t> ends_;
};

// Whether append_texts reads elements of this type.
bool holds_texts(const Datatype& type);
// Each element as text, without its padding and what follows a zero byte. Elements of variable
// length have no more bytes together than the file. Throws kCorruptData. REQUIRES:
// holds_texts(type), a multiple of type.size bytes.
void append_texts(const FileBytes& file, const Datatype& type, std::span<const std::byte> elements,
                  Texts& texts);

}  // namespace cellfeed::hdf5
