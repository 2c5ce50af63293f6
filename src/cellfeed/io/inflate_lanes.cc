// Deflate (RFC 1951) with as few branches as can be: which symbol comes next cannot be predicted,
// so each step does the work of an optional literal and an optional match. What is rare leaves the
// loop: long codes, ends of blocks, the last bytes of a stream.
#include "cellfeed/io/inflate_lanes.h"

#include <libdeflate.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace cellfeed::io {

#if defined(__x86_64__)
namespace {

#define CELLFEED_LANES __attribute__((target("avx2,bmi,bmi2")))
#define CELLFEED_LANES_INLINE __attribute__((target("avx2,bmi,bmi2"), always_inline)) inline

constexpr int kLiteralBits = 11;   // codes up to this length are found in one look-up
constexpr int kDistanceBits = 9;
constexpr int kMaxCode = 15;
constexpr int kEndOfBlock = 256;
constexpr int kFirstLength = 257;
// A step writes a literal, then up to two vectors past a match, or the longest match and a vector.
constexpr std::ptrdiff_t kOutMargin = 1 + 258 + 32;
// A step reads eight bytes.
constexpr std::ptrdiff_t kInMargin = 8;

// Entries of the table of literals and lengths, all fields that do not apply being 0.
//   bits 0-7    the literal; of a length the bits of its code
//   bits 8-15   the bits of a literal's code
//   bits 16-24  the length without its extra bits
//   bits 25-29  the bits of a length's code and its extra bits
//   bit 30      neither: an end of block or a longer code
//   bit 31      a literal
constexpr std::uint32_t kOther = 1u << 30;
// Entries of the table of distances: bits 0-5 code and extra bits, 8-11 the code's, 16-31 the
// distance without its extra bits.
constexpr std::uint32_t kOtherDistance = 1u << 15;

constexpr std::array<std::uint16_t, 29> kLengths = {3,  4,  5,  6,  7,  8,  9,  10,  11,  13,
                                                    15, 17, 19, 23, 27, 31, 35, 43,  51,  59,
                                                    67, 83, 99, 115, 131, 163, 195, 227, 258};
constexpr std::array<std::uint8_t, 29> kLengthExtra = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                                       2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
constexpr std::array<std::uint16_t, 30> kDistances = {
    1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
    193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
constexpr std::array<std::uint8_t, 30> kDistanceExtra = {0, 0,  0,  0,  1,  1,  2,  2,  3,  3,
                                                         4, 4,  5,  5,  6,  6,  7,  7,  8,  8,
                                                         9, 9, 10, 10, 11, 11, 12, 12, 13, 13};

// How 16 bytes before a match become its first 16 and its next: row d repeats d bytes; row 16
// copies, for distances from 16 on.
struct alignas(32) Repeats {
  std::uint8_t rows[17][32] = {};
  constexpr Repeats() {
    for (int d = 1; d <= 16; ++d)
      for (int i = 0; i < 32; ++i) rows[d][i] = static_cast<std::uint8_t>(i % d);
  }
};
constexpr Repeats kRepeats;

// One Huffman code: how many symbols each length has, and the symbols in the order of their codes.
struct Code {
  std::array<std::uint16_t, kMaxCode + 1> counts;
  std::array<std::uint16_t, 288> symbols;
  std::uint32_t next_code;  // of the first length that the table lacks
  std::uint32_t next_index;

  // False where the lengths are not those of a complete code.
  bool set(const std::uint8_t* lengths, int n) {
    counts.fill(0);
    for (int i = 0; i < n; ++i) ++counts[lengths[i]];
    counts[0] = 0;
    std::array<std::uint16_t, kMaxCode + 2> next{};
    std::int32_t room = 1;
    for (int bits = 1; bits <= kMaxCode; ++bits) {
      room = 2 * room - counts[bits];
      if (room < 0) return false;
      next[bits + 1] = static_cast<std::uint16_t>(next[bits] + counts[bits]);
    }
    for (int i = 0; i < n; ++i)
      if (lengths[i] != 0) symbols[next[lengths[i]]++] = static_cast<std::uint16_t>(i);
    return room == 0;
  }
};

std::uint32_t reversed(std::uint32_t code, int bits) {
  code = (code & 0x5555) << 1 | (code >> 1 & 0x5555);
  code = (code & 0x3333) << 2 | (code >> 2 & 0x3333);
  code = (code & 0x0f0f) << 4 | (code >> 4 & 0x0f0f);
  code = (code & 0x00ff) << 8 | (code >> 8 & 0x00ff);
  return code >> (16 - bits);
}

// table[the next table_bits bits of a stream] = entry_of(symbol, bits of its code).
template <typename EntryOf>
void fill_table(Code& code, std::uint32_t* table, int table_bits, std::uint32_t other,
                const EntryOf& entry_of) {
  std::uint32_t next = 0;
  std::uint32_t index = 0;
  // The table doubles with each length: what is there counts for both values of the new bit.
  std::uint32_t size = 1;
  table[0] = other;
  for (int bits = 1; bits <= table_bits; ++bits) {
    std::memcpy(table + size, table, size * sizeof(*table));
    size *= 2;
    next *= 2;
    for (int i = 0; i < code.counts[bits]; ++i, ++next, ++index)
      table[reversed(next, bits)] = entry_of(code.symbols[index], bits);
  }
  code.next_code = next;
  code.next_index = index;
}

std::uint32_t literal_entry(int symbol, int bits) {
  if (symbol < kEndOfBlock)
    return 1u << 31 | static_cast<std::uint32_t>(bits) << 8 | static_cast<std::uint32_t>(symbol);
  if (symbol == kEndOfBlock || symbol >= kFirstLength + 29) return kOther;
  const auto i = static_cast<std::size_t>(symbol - kFirstLength);
  return static_cast<std::uint32_t>(bits + kLengthExtra[i]) << 25 |
         std::uint32_t{kLengths[i]} << 16 | static_cast<std::uint32_t>(bits);
}

std::uint32_t distance_entry(int symbol, int bits) {
  if (symbol >= 30) return kOtherDistance;
  const auto i = static_cast<std::size_t>(symbol);
  return std::uint32_t{kDistances[i]} << 16 | static_cast<std::uint32_t>(bits) << 8 |
         static_cast<std::uint32_t>(bits + kDistanceExtra[i]);
}

enum class LaneState { kDecoding, kDone, kRefused };

// One stream. `at` counts bits from the start of the input.
struct Lane {
  std::uint32_t literals[1 << kLiteralBits];
  std::uint32_t distances[1 << kDistanceBits];
  const std::uint8_t* in;
  std::uint64_t at;
  std::uint64_t in_bits;    // of the deflate data
  std::uint64_t fast_bits;  // a step may begin before
  std::uint8_t* out;
  std::uint8_t* out_begin;
  std::uint8_t* out_end;
  std::uint8_t* out_fast;  // a step may begin before
  bool is_last_block;
  LaneState state;
  ZlibJob* job;
  Code literal_code;
  Code distance_code;

  void begin(ZlibJob& next_job);
  void end();
  // Decodes one symbol, or the end of a block and the header of the next, with every check.
  void step_carefully();
  bool can_step() const { return at < fast_bits && out < out_fast; }

 private:
  std::uint64_t peek() const;
  std::uint32_t take(int bits);
  int take_symbol(const Code& code, int skip_bits);
  bool read_block_header();
  bool read_codes();
  bool read_lengths(int n, const Code& code, std::uint8_t* lengths);
  void refuse() { state = LaneState::kRefused; }
};

void Lane::begin(ZlibJob& next_job) {
  job = &next_job;
  state = LaneState::kRefused;
  const std::size_t size = job->in.size();
  if (size < 6 + kInMargin || job->out.empty()) return;
  in = reinterpret_cast<const std::uint8_t*>(job->in.data());
  const unsigned header = static_cast<unsigned>(in[0]) << 8 | in[1];
  const bool has_dictionary = (in[1] & 0x20) != 0;
  if ((in[0] & 15) != 8 || (in[0] >> 4) > 7 || header % 31 != 0 || has_dictionary) return;
  at = 16;
  in_bits = (size - 4) * 8;
  fast_bits = (size - kInMargin) * 8;
  out = out_begin = reinterpret_cast<std::uint8_t*>(job->out.data());
  out_end = out + job->out.size();
  out_fast = out_end - std::min<std::ptrdiff_t>(kOutMargin, out_end - out);
  is_last_block = false;
  state = LaneState::kDecoding;
  if (!read_block_header()) refuse();
}

void Lane::end() {
  state = LaneState::kRefused;
  if (out != out_end || at > in_bits) return;
  std::uint32_t promised = 0;
  for (std::uint64_t byte = (at + 7) / 8, i = 0; i < 4; ++i) promised = promised << 8 | in[byte + i];
  if (libdeflate_adler32(1, out_begin, job->out.size()) != promised) return;
  state = LaneState::kDone;
  job->is_done = true;
}

// At least 57 bits from `at` on; zeros beyond the input.
std::uint64_t Lane::peek() const {
  const std::uint64_t byte = at / 8;
  const std::uint64_t size = job->in.size();
  std::uint64_t bits = 0;
  if (byte < size) std::memcpy(&bits, in + byte, std::min<std::uint64_t>(8, size - byte));
  return bits >> (at % 8);
}

std::uint32_t Lane::take(int bits) {
  const auto value = static_cast<std::uint32_t>(peek() & ((std::uint64_t{1} << bits) - 1));
  at += bits;
  return value;
}

// -1 where no symbol has the code. skip_bits: lengths known not to fit, 0 or those of the table.
int Lane::take_symbol(const Code& code, int skip_bits) {
  const std::uint64_t bits = peek();
  std::uint32_t first = skip_bits == 0 ? 0 : code.next_code;
  std::uint32_t index = skip_bits == 0 ? 0 : code.next_index;
  std::uint32_t value = reversed(static_cast<std::uint32_t>(bits & 0x7fff) << 1 >> 1, 16) >> 1;
  value >>= 15 - skip_bits;
  for (int length = skip_bits + 1; length <= kMaxCode; ++length) {
    value = value << 1 | static_cast<std::uint32_t>(bits >> (length - 1) & 1);
    first <<= 1;
    if (value - first < code.counts[length]) {
      at += length;
      return code.symbols[index + value - first];
    }
    first += code.counts[length];
    index += code.counts[length];
  }
  return -1;
}

bool Lane::read_block_header() {
  if (at + 3 > in_bits) return false;
  is_last_block = take(1) != 0;
  if (take(2) != 2) return false;  // stored and fixed blocks are rare in chunks worth a lane
  if (!read_codes() || at > in_bits) return false;
  fill_table(literal_code, literals, kLiteralBits, kOther, literal_entry);
  fill_table(distance_code, distances, kDistanceBits, kOtherDistance, distance_entry);
  return true;
}

bool Lane::read_codes() {
  constexpr std::array<std::uint8_t, 19> kOrder = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                                   11, 4,  12, 3, 13, 2, 14, 1, 15};
  const int n_literals = static_cast<int>(take(5)) + 257;
  const int n_distances = static_cast<int>(take(5)) + 1;
  const int n_lengths = static_cast<int>(take(4)) + 4;
  if (n_literals > 286 || n_distances > 30) return false;
  std::array<std::uint8_t, 19> own{};
  for (int i = 0; i < n_lengths; ++i) own[kOrder[i]] = static_cast<std::uint8_t>(take(3));
  std::array<std::uint8_t, 286 + 30> lengths;
  if (!literal_code.set(own.data(), 19)) return false;
  if (!read_lengths(n_literals + n_distances, literal_code, lengths.data())) return false;
  return literal_code.set(lengths.data(), n_literals) &&
         distance_code.set(lengths.data() + n_literals, n_distances);
}

bool Lane::read_lengths(int n, const Code& code, std::uint8_t* lengths) {
  // Those codes have 7 bits at most.
  std::array<std::uint32_t, 128> table;
  Code& own = const_cast<Code&>(code);
  fill_table(own, table.data(), 7, 0, [](int symbol, int bits) {
    return static_cast<std::uint32_t>(symbol) << 8 | static_cast<std::uint32_t>(bits);
  });
  for (int i = 0; i < n;) {
    const std::uint32_t entry = table[peek() & 127];
    if ((entry & 0xff) == 0) return false;
    at += entry & 0xff;
    const auto symbol = static_cast<std::uint8_t>(entry >> 8);
    if (symbol < 16) {
      lengths[i++] = symbol;
      continue;
    }
    if (symbol == 16 && i == 0) return false;
    const std::uint8_t value = symbol == 16 ? lengths[i - 1] : std::uint8_t{0};
    const int repeat = symbol == 16   ? 3 + static_cast<int>(take(2))
                       : symbol == 17 ? 3 + static_cast<int>(take(3))
                                      : 11 + static_cast<int>(take(7));
    if (repeat > n - i) return false;
    std::memset(lengths + i, value, static_cast<std::size_t>(repeat));
    i += repeat;
  }
  return true;
}

void Lane::step_carefully() {
  std::uint32_t entry = literals[peek() & ((1 << kLiteralBits) - 1)];
  const int symbol = take_symbol(literal_code, (entry & kOther) != 0 && false ? kLiteralBits : 0);
  if (symbol < 0 || at > in_bits) return refuse();
  if (symbol < kEndOfBlock) {
    if (out == out_end) return refuse();
    *out++ = static_cast<std::uint8_t>(symbol);
    return;
  }
  if (symbol == kEndOfBlock) {
    if (is_last_block) return end();
    if (!read_block_header()) refuse();
    return;
  }
  if (symbol >= kFirstLength + 29) return refuse();
  const auto l = static_cast<std::size_t>(symbol - kFirstLength);
  const std::ptrdiff_t length = kLengths[l] + static_cast<std::ptrdiff_t>(take(kLengthExtra[l]));
  const int d = take_symbol(distance_code, 0);
  if (d < 0 || d >= 30) return refuse();
  const std::ptrdiff_t distance =
      kDistances[d] + static_cast<std::ptrdiff_t>(take(kDistanceExtra[d]));
  if (at > in_bits || distance > out - out_begin || length > out_end - out) return refuse();
  for (std::ptrdiff_t i = 0; i < length; ++i, ++out) *out = out[-distance];
}

// What a loop keeps of a lane in registers.
struct Position {
  std::uint64_t at;
  std::uint8_t* out;
};

// An optional literal, then an optional match. False, with the match untouched, where the next
// symbol is neither. REQUIRES: lane.can_step() for this position.
CELLFEED_LANES_INLINE bool step(const Lane& lane, Position& p) {
  std::uint64_t bits;
  std::memcpy(&bits, lane.in + (p.at >> 3), sizeof bits);
  bits >>= p.at & 7;
  const std::uint32_t first = lane.literals[_bzhi_u64(bits, kLiteralBits)];
  *p.out = static_cast<std::uint8_t>(first);
  const std::uint64_t literal_bits = first >> 8 & 0xff;
  bits >>= literal_bits & 63;
  p.at += literal_bits;
  p.out += first >> 31;
  const std::uint32_t entry = lane.literals[_bzhi_u64(bits, kLiteralBits)];
  if ((entry & kOther) != 0) [[unlikely]]
    return false;
  // All ones where another literal comes: it is left to the next step, and the match is empty.
  const std::uint64_t is_literal = static_cast<std::uint64_t>(
      static_cast<std::int64_t>(static_cast<std::int32_t>(entry) >> 31));
  const std::uint32_t length_bits = entry >> 25 & 31;
  const std::uint64_t length =
      ((entry >> 16 & 0x1ff) + (_bzhi_u64(bits, length_bits) >> (entry & 63))) & ~is_literal;
  bits >>= length_bits;
  const std::uint32_t distance_entry =
      lane.distances[_bzhi_u64(bits, kDistanceBits)] & static_cast<std::uint32_t>(~is_literal);
  if ((distance_entry & kOtherDistance) != 0) [[unlikely]]
    return false;
  const std::uint64_t distance =
      (distance_entry >> 16) +
      (_bzhi_u64(bits, distance_entry) >> (distance_entry >> 8 & 63));
  const std::uint8_t* source = p.out - distance;
  if (source < lane.out_begin) [[unlikely]]
    return false;
  p.at += length_bits + (distance_entry & 63);
  std::uint64_t near = distance < 16 ? distance : 16;
  asm("" : "+r"(near));  // no branch: it could not be predicted
  const auto* repeat = reinterpret_cast<const __m128i*>(kRepeats.rows[near]);
  const auto load = [](const std::uint8_t* from) __attribute__((target("avx2,bmi,bmi2"))) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  };
  const auto store = [](std::uint8_t* to, __m128i v) __attribute__((target("avx2,bmi,bmi2"))) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), v);
  };
  store(p.out, _mm_shuffle_epi8(load(source), _mm_load_si128(repeat)));
  store(p.out + 16, _mm_shuffle_epi8(load(source + (near & 16)), _mm_load_si128(repeat + 1)));
  if (length > 32) [[unlikely]] {
    // Of a short distance a multiple, so that each load is of bytes that are there.
    const std::uint64_t stride = distance < 16 ? distance * ((15 + distance) / distance) : distance;
    std::uint8_t* const end = p.out + length;
    for (std::uint8_t* to = p.out + 32; to < end; to += 16) store(to, load(to - stride));
  }
  p.out += length;
  return true;
}

CELLFEED_LANES_INLINE bool can_step(const Lane& lane, const Position& p) {
  return p.at < lane.fast_bits && p.out < lane.out_fast;
}

CELLFEED_LANES void run_both(Lane& a, Lane& b) {
  while (a.state == LaneState::kDecoding && b.state == LaneState::kDecoding) {
    Position pa{a.at, a.out};
    Position pb{b.at, b.out};
    bool is_a_plain = can_step(a, pa);
    bool is_b_plain = can_step(b, pb);
    while (is_a_plain && is_b_plain) {
      is_a_plain = step(a, pa);
      is_b_plain = step(b, pb);
      is_a_plain = is_a_plain & can_step(a, pa);
      is_b_plain = is_b_plain & can_step(b, pb);
    }
    a.at = pa.at;
    a.out = pa.out;
    b.at = pb.at;
    b.out = pb.out;
    if (!is_a_plain) a.step_carefully();
    if (!is_b_plain) b.step_carefully();
  }
}

CELLFEED_LANES void run_alone(Lane& lane) {
  while (lane.state == LaneState::kDecoding) {
    Position p{lane.at, lane.out};
    while (can_step(lane, p) && step(lane, p)) {
    }
    lane.at = p.at;
    lane.out = p.out;
    lane.step_carefully();
  }
}

bool has_instructions() {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                          __builtin_cpu_supports("bmi2");
  return has;
}

}  // namespace

void inflate_in_lanes(std::span<ZlibJob> jobs) {
  if (!has_instructions()) return;
  thread_local const auto lanes = std::make_unique<std::array<Lane, 2>>();
  std::size_t next = 0;
  const auto refill = [&](Lane& lane) {
    while (lane.state != LaneState::kDecoding && next < jobs.size()) lane.begin(jobs[next++]);
  };
  Lane& a = (*lanes)[0];
  Lane& b = (*lanes)[1];
  a.state = b.state = LaneState::kDone;
  for (;;) {
    refill(a);
    refill(b);
    if (a.state != LaneState::kDecoding || b.state != LaneState::kDecoding) break;
    run_both(a, b);
  }
  run_alone(a);
  run_alone(b);
}

#else

void inflate_in_lanes(std::span<ZlibJob>) {}

#endif

}  // namespace cellfeed::io
