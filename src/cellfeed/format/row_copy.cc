#include "cellfeed/format/row_copy.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cellfeed/format/row_copy.cc"
#include <hwy/foreach_target.h>  // includes this file once a target
//
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace cellfeed::format {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int64_t kLineBytes = 64;
constexpr std::int64_t kLineWords = kLineBytes / 4;
using Words = hn::CappedTag<std::int32_t, kLineWords>;  // a line is a whole number of vectors

HWY_INLINE std::int32_t word_at(const std::byte* from, std::int64_t i) {
  std::int32_t word;
  std::memcpy(&word, from + 4 * i, sizeof(word));
  return word;
}

HWY_INLINE hn::Vec<Words> words_at(const std::byte* from, std::int64_t i) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(Words(), word_at(from, i));
#else
  const hn::Repartition<std::uint8_t, Words> bytes;
  return hn::BitCast(Words(),
                     hn::LoadU(bytes, reinterpret_cast<const std::uint8_t*>(from) + 4 * i));
#endif
}

// One line of what comes next for each line copied.
class Asker {
 public:
  explicit Asker(UpcomingBytes upcoming)
      : next_(upcoming.data), end_(upcoming.data + upcoming.size) {}
  HWY_INLINE void Ask() {
    if (next_ < end_) hwy::Prefetch(next_);
    next_ += kLineBytes;
  }
  HWY_INLINE void AskRest() {
    for (; next_ < end_; next_ += kLineBytes) hwy::Prefetch(next_);
  }

 private:
  const std::byte* next_;
  const std::byte* end_;
};

// Words before the first whole line of `to`.
HWY_INLINE std::int64_t words_to_line(const void* to) {
  return static_cast<std::int64_t>(-reinterpret_cast<std::uintptr_t>(to) % kLineBytes / 4);
}

template <bool kPastCaches>
HWY_INLINE void store_words(hn::Vec<Words> v, std::int32_t* to) {
  if constexpr (kPastCaches)
    hn::Stream(v, Words(), to);
  else
    hn::StoreU(v, Words(), to);
}

// kAscends: whether the order of the words is of interest.
template <bool kAscends, bool kPastCaches>
HWY_INLINE bool copy_words(const std::byte* HWY_RESTRICT from, std::int64_t n,
                           std::int32_t* HWY_RESTRICT to, UpcomingBytes upcoming) {
  const Words d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  Asker asker(upcoming);
  bool ascends = true;
  std::int64_t i = 0;
  const auto copy_one = [&] {
    to[i] = word_at(from, i);
    if constexpr (kAscends) ascends &= i + 1 == n || word_at(from, i) < word_at(from, i + 1);
    ++i;
  };
  if constexpr (kPastCaches)
    for (const std::int64_t head = std::min(n, words_to_line(to)); i < head;) copy_one();
  auto rises = hn::Eq(hn::Zero(d), hn::Zero(d));
  // The word behind a line is looked at too.
  for (; i + kLineWords < n; i += kLineWords) {
    asker.Ask();
    for (std::int64_t j = i; j < i + kLineWords; j += lanes) {
      const auto words = words_at(from, j);
      if constexpr (kAscends) rises = hn::And(rises, hn::Lt(words, words_at(from, j + 1)));
      store_words<kPastCaches>(words, to + j);
    }
  }
  while (i < n) copy_one();
  asker.AskRest();
  return ascends && hn::AllTrue(d, rises);
}

bool CopyAscending(const std::byte* from, std::int64_t n, std::int32_t* to, UpcomingBytes upcoming,
                   bool past_caches) {
  return past_caches ? copy_words<true, true>(from, n, to, upcoming)
                     : copy_words<true, false>(from, n, to, upcoming);
}

void CopyWords(const std::byte* from, std::int64_t n, std::int32_t* to, UpcomingBytes upcoming,
               bool past_caches) {
  if (past_caches)
    copy_words<false, true>(from, n, to, upcoming);
  else
    copy_words<false, false>(from, n, to, upcoming);
}

// Places are looked up one by one into a piece that stays in the nearest cache, and go on from
// there by whole lines: a vector over stores of single words waits for them if it is loaded at
// once.
constexpr std::int64_t kPieceLines = 4;

// Looks up the places of two column indices, which one load brings: of a row in the nearest cache
// the loads are what takes time. REQUIRES: both have a place.
template <typename Place>
HWY_INLINE void look_up_two(const std::byte* from, const Place* places, std::int32_t* to) {
  static_assert(std::endian::native == std::endian::little);
  std::uint64_t two;
  std::memcpy(&two, from, sizeof(two));
  to[0] = places[static_cast<std::uint32_t>(two)];
  to[1] = places[two >> 32];
}

// Whether the words of a line, and the one behind it, rise.
HWY_INLINE bool do_rise(const std::byte* from, std::int64_t i) {
  const Words d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto rises = hn::Eq(hn::Zero(d), hn::Zero(d));
  for (std::int64_t j = i; j < i + kLineWords; j += lanes)
    rises = hn::And(rises, hn::Lt(words_at(from, j), words_at(from, j + 1)));
  return hn::AllTrue(d, rises);
}

// Looks up the places of a line of columns at once. REQUIRES: each column + 1 < the places, for two
// are loaded and one is used.
HWY_INLINE hn::Vec<Words> gather_places(hn::Vec<Words> columns, const std::uint16_t* places) {
  const Words d;
  const auto two =
      hn::GatherOffset(d, reinterpret_cast<const std::int32_t*>(places), hn::ShiftLeft<1>(columns));
  return hn::And(two, hn::Set(d, 0xffff));
}

// Only vectors of a whole line gather sooner than single loads do.
constexpr bool kCanGather = HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3;

// `to` may be where `from` is, unless it is written past the caches.
template <bool kPastCaches, bool kGathers, typename Place>
HWY_INLINE bool copy_places_of(const std::byte* from, std::int64_t n,
                               const Place* HWY_RESTRICT places, std::int32_t n_places,
                               std::int32_t* to, UpcomingBytes upcoming) {
  const Words d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  HWY_ALIGN std::int32_t piece[kPieceLines * kLineWords];
  Asker asker(upcoming);
  std::int64_t i = 0;
  const auto copy_one = [&] {
    const std::int32_t index = word_at(from, i);
    if (index < 0 || index >= n_places) return false;
    to[i] = places[index];
    ++i;
    return i == n || index < word_at(from, i);
  };
  // Rising: the ends bound the rest.
  const auto is_sound = [&](std::int64_t at, std::int32_t limit) {
    return do_rise(from, at) && word_at(from, at) >= 0 &&
           word_at(from, at + kLineWords - 1) < limit;
  };
  if constexpr (kPastCaches)
    for (const std::int64_t head = std::min(n, words_to_line(to)); i < head;)
      if (!copy_one()) return false;
  // The word behind a line is looked at too.
  if constexpr (kGathers)
    for (; i + kLineWords < n && is_sound(i, n_places - 1); i += kLineWords) {
      asker.Ask();
      store_words<kPastCaches>(gather_places(words_at(from, i), places), to + i);
    }
  while (i + kLineWords < n) {
    const std::int64_t lines = std::min(kPieceLines, (n - 1 - i) / kLineWords);
    for (std::int64_t j = 0; j < lines * kLineWords; j += kLineWords) {
      asker.Ask();
      if (!is_sound(i + j, n_places)) return false;
      for (std::int64_t k = j; k < j + kLineWords; k += 2)
        look_up_two(from + 4 * (i + k), places, piece + k);
    }
    for (std::int64_t j = 0; j < lines * kLineWords; j += lanes)
      store_words<kPastCaches>(hn::Load(d, piece + j), to + i + j);
    i += lines * kLineWords;
  }
  while (i < n)
    if (!copy_one()) return false;
  asker.AskRest();
  return true;
}

bool CopyPlaces(const std::byte* from, std::int64_t n, const std::int32_t* places,
                std::int32_t n_places, std::int32_t* to, UpcomingBytes upcoming, bool past_caches) {
  return past_caches ? copy_places_of<true, false>(from, n, places, n_places, to, upcoming)
                     : copy_places_of<false, false>(from, n, places, n_places, to, upcoming);
}

bool CopyNarrowPlaces(const std::byte* from, std::int64_t n, const std::uint16_t* places,
                      std::int32_t n_places, std::int32_t* to, UpcomingBytes upcoming,
                      bool past_caches, bool gathers) {
  if (kCanGather && gathers)
    return past_caches ? copy_places_of<true, kCanGather>(from, n, places, n_places, to, upcoming)
                       : copy_places_of<false, kCanGather>(from, n, places, n_places, to, upcoming);
  return past_caches ? copy_places_of<true, false>(from, n, places, n_places, to, upcoming)
                     : copy_places_of<false, false>(from, n, places, n_places, to, upcoming);
}

void Publish() { hwy::FlushStream(); }

}  // namespace HWY_NAMESPACE
}  // namespace cellfeed::format
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cellfeed::format {
namespace {

HWY_EXPORT(CopyAscending);
HWY_EXPORT(CopyWords);
HWY_EXPORT(CopyPlaces);
HWY_EXPORT(CopyNarrowPlaces);
HWY_EXPORT(Publish);

}  // namespace

bool copy_ascending(const std::byte* from, std::int64_t n, std::int32_t* to, UpcomingBytes upcoming,
                    bool past_caches) {
  return HWY_DYNAMIC_DISPATCH(CopyAscending)(from, n, to, upcoming, past_caches);
}

bool gathers_soon() {
#if defined(__x86_64__)
  static const bool is_soon = __builtin_cpu_supports("avx512fp16") != 0;
  return is_soon;
#else
  return false;
#endif
}

bool copy_places(const std::byte* from, std::int64_t n, std::span<const std::int32_t> places,
                 std::span<const std::uint16_t> narrow, std::int32_t* to, UpcomingBytes upcoming,
                 bool past_caches, bool gathers) {
  const auto n_places = static_cast<std::int32_t>(places.size());
  if (!narrow.empty())
    return HWY_DYNAMIC_DISPATCH(CopyNarrowPlaces)(from, n, narrow.data(), n_places, to, upcoming,
                                                  past_caches, gathers);
  return HWY_DYNAMIC_DISPATCH(CopyPlaces)(from, n, places.data(), n_places, to, upcoming,
                                          past_caches);
}

void copy_bytes(const std::byte* from, std::int64_t size, std::byte* to, UpcomingBytes upcoming,
                bool past_caches) {
  const std::int64_t words = size / 4;
  HWY_DYNAMIC_DISPATCH(CopyWords)
  (from, words, reinterpret_cast<std::int32_t*>(to), upcoming, past_caches);
  if (size > words * 4)
    std::memcpy(to + words * 4, from + words * 4, static_cast<std::size_t>(size - words * 4));
}

void publish_row_copies(bool past_caches) {
  if (past_caches) HWY_DYNAMIC_DISPATCH(Publish)();
}

}  // namespace cellfeed::format
#endif
