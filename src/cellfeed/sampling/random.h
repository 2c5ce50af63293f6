// RandomStream: counter-based random bits (Philox 4x32-10), a pure function of (seed, epoch,
// purpose, counter).
//
// docs/sampling.md holds the exact algorithm and test vectors: a change here changes every order.
// Thread-safe: a RandomStream is immutable.
#pragma once

#include <array>
#include <cstdint>

#include "cellfeed/base/random_bits.h"

namespace cellfeed::sampling {

// What bits are for; streams of different purposes are independent. The numbers are part of the
// order.
enum class Purpose : std::uint32_t {
  kBlockOrder = 1,          // permutation of blocks (of samples, when a block is one sample)
  kShortBlock = 2,          // where the short block goes, or which samples drop_last drops
  kGroupOrder = 3,          // permutation of the positions of fetch group g (substream g)
  kBlockDraw = 4,           // weighted: which block, which class
  kMemberDraw = 5,          // weighted: which sample of it
  kRoundKeys = 6,           // weighted without replacement: exponential keys (substream = round)
  kGroupBatch = 7,          // group sampling: order of the batches
  kGroupMember = 8,         // group sampling: order of one group's members (substream = group)
  kStatistics = 9,          // estimates about a plan; no order depends on it
  kCellTokens = 10,         // loader: what is drawn for the tokens of one cell (index = position)
  kGenesOfBatch = 11,       // loader: which genes a batch keeps (index = first sample of its step)
  kSimulatedCell = 64,      // convert: the real cell behind a simulated one
  kSimulatedThinning = 65,  // convert: which of its counts are lost (substream = cell)
  kShuffledCell = 66,       // convert: the cell at each position of shuffled shards
};

// 128 random bits.
struct TwoWords {
  std::uint64_t first;
  std::uint64_t second;
};

class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::uint64_t epoch, Purpose purpose);

  // Four words of Philox at counter (index, substream).
  std::array<std::uint32_t, 4> words(std::uint64_t index, std::uint64_t substream = 0) const;
  // The same as two 64-bit words, low half first.
  TwoWords two_words(std::uint64_t index, std::uint64_t substream = 0) const;
  // 64 bits: the first two words, low word first.
  std::uint64_t bits(std::uint64_t index, std::uint64_t substream = 0) const;
  // Uniform on [0, range), without bias (Lemire); the substream counts rejections. REQUIRES: range
  // > 0.
  std::uint64_t bounded(std::uint64_t index, std::uint64_t range) const;

  std::uint64_t key() const { return key_; }

 private:
  std::uint64_t key_;
};

}  // namespace cellfeed::sampling
