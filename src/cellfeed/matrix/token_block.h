// TokenBlock: cells as sequences of tokens. All arrays lie in one piece of memory, each aligned to
// 64 bytes, so that they are kept, page-locked and copied to a GPU as one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "cellfeed/matrix/buffer.h"
#include "cellfeed/matrix/csr.h"

namespace cellfeed::matrix {

// What is predicted of tokens: their class, such as the gene; and their value.
struct TokenTargets {
  bool has_labels = false;
  bool has_values = false;
};

struct TokenBlock {
  // Where arrays begin in the memory of a block, and the bytes of it.
  struct Layout {
    Layout(std::int64_t n_rows, std::int64_t width, TokenTargets targets);
    std::size_t ids = 0;            // int32, n_rows x width, row-major as all of them
    std::size_t values = 0;         // float32
    std::size_t mask = 0;           // bool, a byte each: true for tokens, false for padding
    std::size_t lengths = 0;        // int32, n_rows
    std::size_t labels = 0;         // int64
    std::size_t target_values = 0;  // float32
    std::size_t bytes = 0;
  };

  std::int64_t n_rows = 0;
  std::int64_t n_cols = 0;  // genes of the rows that tokens were made of
  std::int64_t width = 0;   // tokens of a row, padding included
  TokenTargets targets{};
  Layout layout{0, 0, {}};
  Buffer<std::byte> memory;
  // Rows that wait to become tokens, once all of the batch are known; else null.
  std::unique_ptr<CsrBlock> rows{};

  template <typename T>
  T* at(std::size_t offset) {
    return reinterpret_cast<T*>(memory.data() + offset);
  }
  template <typename T>
  const T* at(std::size_t offset) const {
    return reinterpret_cast<const T*>(memory.data() + offset);
  }
  // Moves rows together that are wider than the longest. REQUIRES: new_width <= width.
  void narrow(std::int64_t new_width);
};

}  // namespace cellfeed::matrix
