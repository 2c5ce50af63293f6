// Fisher-Yates tables, Feistel keys, and the cache of each thread.
#include "cellfeed/sampling/permutation.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <tuple>
#include <utility>

namespace cellfeed::sampling {
namespace {

// Consecutive 32-bit words of one substream.
class WordReader {
 public:
  WordReader(const RandomStream& stream, std::uint64_t substream)
      : stream_(stream), substream_(substream) {}

  std::uint32_t next() {
    if (used_ == 4) {
      words_ = stream_.words(index_++, substream_);
      used_ = 0;
    }
    return words_[used_++];
  }

  // Uniform on [0, range), without bias (Lemire, 32 bits).
  std::uint32_t bounded(std::uint32_t range) {
    std::uint64_t product = std::uint64_t{next()} * range;
    if (static_cast<std::uint32_t>(product) < range) {
      const std::uint32_t threshold = (0 - range) % range;
      while (static_cast<std::uint32_t>(product) < threshold)
        product = std::uint64_t{next()} * range;
    }
    return static_cast<std::uint32_t>(product >> 32);
  }

 private:
  const RandomStream& stream_;
  std::uint64_t substream_;
  std::uint64_t index_ = 0;
  std::array<std::uint32_t, 4> words_{};
  std::size_t used_ = 4;
};

}  // namespace

Permutation::Permutation(const RandomStream& stream, std::uint64_t substream, std::int64_t n,
                         std::int64_t explicit_size)
    : size_(static_cast<std::uint64_t>(n)) {
  if (n <= explicit_size) {
    fill_table(stream, substream);
    return;
  }
  left_bits_ = (static_cast<int>(std::bit_width(size_)) - 1) / 2;
  left_mask_ = (std::uint64_t{1} << left_bits_) - 1;
  right_size_ = (size_ + left_mask_) >> left_bits_;
  for (std::size_t r = 0; r < kRounds; ++r) keys_[r] = stream.bits(r, substream);
}

void Permutation::fill_table(const RandomStream& stream, std::uint64_t substream) {
  table_.resize(size_);
  std::iota(table_.begin(), table_.end(), std::uint16_t{0});
  WordReader words(stream, substream);
  for (auto i = static_cast<std::uint32_t>(size_ - 1); i > 0; --i) {
    std::swap(table_[i], table_[words.bounded(i + 1)]);
  }
}

std::shared_ptr<const Permutation> cached_permutation(std::uint64_t seed, std::uint64_t epoch,
                                                      Purpose purpose, std::uint64_t substream,
                                                      std::int64_t n) {
  using Key = std::tuple<std::uint64_t, std::uint64_t, Purpose, std::uint64_t, std::int64_t>;
  struct Entry {
    Key key{};
    std::shared_ptr<const Permutation> permutation;
  };
  // Members of a group are read one batch at a time, between batches of other groups: a long table
  // would be made for a short use.
  const std::int64_t explicit_size =
      purpose == Purpose::kGroupMember ? Permutation::kExplicitMembers : Permutation::kExplicitSize;
  // Group orders do not push out the orders of whole epochs. Two of each serve a training and a
  // validation loader; an entry takes 128 KiB at most.
  using Entries = std::array<Entry, 2>;  // most recently used first
  thread_local std::array<Entries, 2> caches;

  Entries& entries =
      caches[purpose == Purpose::kGroupOrder || purpose == Purpose::kGroupMember ? 0 : 1];
  const Key key{seed, epoch, purpose, substream, n};
  auto hit = std::find_if(entries.begin(), entries.end(),
                          [&](const Entry& e) { return e.permutation && e.key == key; });
  if (hit == entries.end()) {
    --hit;
    *hit = {key, std::make_shared<const Permutation>(RandomStream(seed, epoch, purpose), substream,
                                                     n, explicit_size)};
  }
  std::rotate(entries.begin(), hit, hit + 1);
  return entries.front().permutation;
}

}  // namespace cellfeed::sampling
