// Changes of sound HDF5 files, whose checksums are mended or not: an input of these targets is the
// number of a file, a byte that says whether checksums are mended, and a list of changes.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "cellfeed/hdf5/checksum.h"

namespace cellfeed::fuzz {

struct Region {  // [begin, end) has its checksum behind it
  std::size_t begin = 0;
  std::size_t end = 0;
};

struct SoundFile {
  std::vector<std::byte> bytes;
  std::vector<Region> checked;
};

inline std::uint32_t stored_checksum(const std::vector<std::byte>& bytes, std::size_t at) {
  std::uint32_t value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// Found by trying all lengths, so that nothing here depends on the parser under test.
inline std::vector<Region> checked_regions(const std::vector<std::byte>& bytes) {
  constexpr std::size_t kMaxRegion = 3000;
  constexpr const char* kSignatures[] = {"OHDR", "OCHK", "BTHD", "BTIN", "BTLF",   "FRHP",
                                         "FHDB", "FHIB", "FAHD", "FADB", "EAHD",   "EAIB",
                                         "EASB", "EADB", "SMTB", "SMLI", "\x89HDF"};
  std::vector<Region> regions;
  for (std::size_t at = 0; at + 8 < bytes.size(); ++at) {
    const bool is_signature = std::any_of(
        std::begin(kSignatures), std::end(kSignatures),
        [&](const char* signature) { return std::memcmp(bytes.data() + at, signature, 4) == 0; });
    if (!is_signature) continue;
    const std::size_t last = std::min(bytes.size() - 4, at + kMaxRegion);
    for (std::size_t end = at + 8; end <= last; ++end)
      if (hdf5::metadata_checksum({bytes.data() + at, end - at}) == stored_checksum(bytes, end)) {
        regions.push_back({at, end});
        break;
      }
  }
  return regions;
}

inline SoundFile sound_file(std::vector<std::byte> bytes) {
  SoundFile sound{.bytes = std::move(bytes), .checked = {}};
  sound.checked = checked_regions(sound.bytes);
  return sound;
}

// The changes of an input: a length below 9, an offset, and that many bytes.
inline std::vector<std::byte> changed(const SoundFile& sound, std::span<const std::uint8_t> input,
                                      bool mends) {
  std::vector<std::byte> bytes = sound.bytes;
  while (input.size() > 5) {
    const std::size_t length = std::min<std::size_t>(input[0] % 9, input.size() - 5);
    std::uint32_t offset;
    std::memcpy(&offset, input.data() + 1, sizeof offset);
    for (std::size_t i = 0; i < length; ++i)
      bytes[(offset + i) % bytes.size()] = static_cast<std::byte>(input[5 + i]);
    input = input.subspan(5 + length);
  }
  // From the last to the first: those that lie within others are mended before.
  for (std::size_t i = mends ? sound.checked.size() : 0; i-- > 0;) {
    const Region& region = sound.checked[i];
    const std::uint32_t sum =
        hdf5::metadata_checksum({bytes.data() + region.begin, region.end - region.begin});
    std::memcpy(bytes.data() + region.end, &sum, sizeof sum);
  }
  return bytes;
}

// Of sound file number `file`; half of the changes lie in checked structures, which are a small
// part of the bytes.
inline std::vector<std::uint8_t> random_changes(const SoundFile& sound, std::size_t file,
                                                std::mt19937& random) {
  std::vector<std::uint8_t> input{static_cast<std::uint8_t>(file), 1};
  for (auto changes = 1 + random() % 3; changes > 0; --changes) {
    std::uint32_t offset = static_cast<std::uint32_t>(random() % sound.bytes.size());
    if (!sound.checked.empty() && random() % 2 == 0) {
      const Region& region = sound.checked[random() % sound.checked.size()];
      offset = static_cast<std::uint32_t>(region.begin + random() % (region.end - region.begin));
    }
    input.push_back(static_cast<std::uint8_t>(1 + random() % 8));
    for (int b = 0; b < 4; ++b) input.push_back(static_cast<std::uint8_t>(offset >> (8 * b)));
    constexpr std::uint8_t kBytes[] = {0, 1, 2, 0x7f, 0x80, 0xff};
    const bool is_special = random() % 2 == 0;
    for (int b = input[input.size() - 5]; b > 0; --b)
      input.push_back(is_special ? kBytes[random() % std::size(kBytes)]
                                 : static_cast<std::uint8_t>(random()));
  }
  return input;
}

// Aborts where a reading goes on after so long that it never ends.
class TimeLimit {
 public:
  TimeLimit() {
    std::signal(SIGALRM, [](int) { std::abort(); });
    alarm(kMaxSeconds);
  }
  ~TimeLimit() { alarm(0); }
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

 private:
  static constexpr unsigned kMaxSeconds = 60;
};

}  // namespace cellfeed::fuzz
