// Unpacks the blocks of one record: gaps to indices, codes to numbers. Plain functions over SIMD
// and scalar code. Thread-safe: no state is shared.
#pragma once

#include <cstdint>

namespace cellfeed::format::shard::record {

// What becomes of the codes.
enum class CodeOutput {
  kNone,           // the record has no codes: indices only
  kI32,            // code + offset as int32
  kF32,            // code + offset as float32
  kF32Multiplied,  // float32(code + offset) * factor
  kF32Divided,     // float32(code + offset) / factor
};

struct BlockRequest {
  // Widths of all blocks; the caller has checked that they lie before data.
  const std::uint8_t* words = nullptr;
  const std::uint8_t* data = nullptr;  // the first block
  const std::uint8_t* end = nullptr;   // the blocks lie before it
  std::int64_t nnz = 0;
  std::uint32_t n_cols = 0;  // < 2^31
  CodeOutput output = CodeOutput::kNone;
  std::int32_t offset = 0;
  float factor = 1;
  bool may_overrun = false;  // 64 bytes behind both outputs may be overwritten
  std::int32_t* indices = nullptr;
  void* values = nullptr;  // nnz times 4 bytes
};

enum class BlockStatus {
  kDone,
  kTruncated,  // a block ends behind `end`
  kBadBlock,   // widths, positions or numbers that no encoder writes
  kBadIndex,   // an index >= n_cols
  kTooWide,    // numbers of more than 24 bits: only the scalar code unpacks them
};

struct BlockResult {
  BlockStatus status = BlockStatus::kDone;
  const std::uint8_t* end = nullptr;  // of the last block
};

inline constexpr int kMaxFastBits =
    24;  // float32 holds every such code + 1; 128 such gaps fit 31 bits

// The reference: every width, one number at a time.
BlockResult unpack_blocks_scalar(const BlockRequest& request);

// The fastest code for this machine, chosen at run time; kTooWide where it declines.
BlockResult unpack_blocks(const BlockRequest& request);

}  // namespace cellfeed::format::shard::record
