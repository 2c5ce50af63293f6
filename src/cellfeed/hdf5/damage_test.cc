// Damaged files: every change of metadata ends in an error or in something that can be read, in
// bounded time, also where checksums were mended.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <array>
#include <chrono>
#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "cellfeed/hdf5/checksum.h"
#include "cellfeed/hdf5/file.h"
#include "cellfeed/io/memory_source.h"
#include "cellfeed/testing/hdf5_oracle.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::hdf5 {
namespace {

using cellfeed::testing::OracleId;
using cellfeed::testing::TempDir;
using FileImage = std::vector<std::byte>;

void write_attribute(hid_t object, const std::string& name, hid_t type, const void* value) {
  const OracleId space(H5Screate(H5S_SCALAR));
  const OracleId attribute(H5Acreate2(object, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT));
  H5Awrite(attribute, type, value);
}

void write_members(hid_t file, bool has_texts) {
  const OracleId text(H5Tcopy(H5T_C_S1));
  H5Tset_size(text, H5T_VARIABLE);
  const hsize_t shape[] = {20, 10};
  const hsize_t most[] = {H5S_UNLIMITED, 10};
  const OracleId space(H5Screate_simple(2, shape, most));
  const OracleId properties(H5Pcreate(H5P_DATASET_CREATE));
  const hsize_t chunk[] = {5, 5};
  H5Pset_chunk(properties, 2, chunk);
  H5Pset_deflate(properties, 1);
  for (int i = 0; i < 12; ++i) {
    const std::string name = fmt::format("member {}", i);
    const OracleId group(H5Gcreate2(file, name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    const OracleId dataset(
        H5Dcreate2(group, "numbers", H5T_STD_I32LE, space, H5P_DEFAULT, properties, H5P_DEFAULT));
    for (int a = 0; a < i; ++a) {
      const std::int32_t value = a;
      write_attribute(group, fmt::format("number {}", a), H5T_STD_I32LE, &value);
      const char* words = "some text";
      if (has_texts) write_attribute(dataset, fmt::format("text {}", a), text, &words);
    }
  }
  H5Lcreate_soft("member 3/numbers", file, "soft", H5P_DEFAULT, H5P_DEFAULT);
}

FileImage write_image(H5F_libver_t low, bool has_texts) {
  const TempDir dir;
  {
    const OracleId access(H5Pcreate(H5P_FILE_ACCESS));
    H5Pset_libver_bounds(access, low, H5F_LIBVER_LATEST);
    const OracleId file(H5Fcreate(dir.file("f.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access));
    write_members(file, has_texts);
  }
  return TempDir::read_all(dir.file("f.h5"));
}

// A structure with a checksum: its bytes, and where the checksum stands.
struct Checked {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t checksum = 0;
};

std::uint32_t u32_at(const FileImage& image, std::size_t at) {
  std::uint32_t value;
  std::memcpy(&value, image.data() + at, sizeof value);
  return value;
}

// Found by trying: from a signature on, how many bytes have the checksum that follows them.
std::vector<Checked> find_checked(const FileImage& image) {
  constexpr std::size_t kMostBytes = 2500;
  std::vector<Checked> found;
  const std::set<std::string> signatures{"OHDR", "OCHK", "BTHD", "BTIN",
                                         "BTLF", "FRHP", "FHIB", "\x89HDF"};
  for (std::size_t begin = 0; begin + 8 < image.size(); ++begin) {
    const std::string text(reinterpret_cast<const char*>(image.data() + begin), 4);
    if (!signatures.contains(text)) continue;
    for (std::size_t n = 8; n < kMostBytes && begin + n + 4 <= image.size(); ++n)
      if (metadata_checksum(std::span(image).subspan(begin, n)) == u32_at(image, begin + n)) {
        found.push_back({begin, begin + n, begin + n});
        break;
      }
  }
  return found;
}

void mend(FileImage& image, const std::vector<Checked>& structures) {
  for (const Checked& part : structures) {
    const std::uint32_t sum =
        metadata_checksum(std::span(image).subspan(part.begin, part.end - part.begin));
    std::memcpy(image.data() + part.checksum, &sum, sizeof sum);
  }
}

// All that a file holds, as text.
class Dump {
 public:
  static std::string of(const FileImage& image) {
    const File file = File::open(io::make_memory_source("damaged.h5", image));
    Dump dump;
    dump.add(file.root());
    return dump.text_;
  }

 private:
  void add(const Object& object) {
    text_ += fmt::format("{}\n", object.path());
    for (const Attribute& attribute : object.attributes()) add_attribute(object, attribute);
    if (object.kind() == ObjectKind::kDataset) add_dataset(object.dataset());
    if (object.kind() != ObjectKind::kGroup || !visited_.insert(object.address()).second) return;
    for (const std::string& name : object.group().member_names()) {
      text_ += fmt::format("{}\n", name);
      if (const auto member = object.group().find(name)) add(*member);
    }
  }
  void add_attribute(const Object& object, const Attribute& attribute) {
    text_ += fmt::format("{} {}", attribute.name, attribute.type.description());
    if (const auto numbers = object.integers_attribute(attribute.name))
      for (const std::int64_t number : *numbers) text_ += fmt::format(" {}", number);
    if (const auto texts = object.texts_attribute(attribute.name))
      for (const std::string& text : *texts) text_ += fmt::format(" {}", text);
    text_ += "\n";
  }
  void add_dataset(const Dataset& dataset) {
    text_ += dataset.datatype().description();
    for (const std::uint64_t length : dataset.shape()) text_ += fmt::format(" {}", length);
    for (const FilterDescription& filter : dataset.filters()) text_ += filter.name;
    if (const auto* chunked = std::get_if<ChunkedLayout>(&dataset.layout()))
      text_ += fmt::format(" at {}", chunked->address);
    text_ += "\n";
  }

  std::string text_;
  std::set<Address> visited_;
};

enum class Outcome { kError, kSame, kOther };

Outcome outcome_of(const FileImage& image, const std::string& sound) {
  const auto start = std::chrono::steady_clock::now();
  Outcome outcome = Outcome::kError;
  try {
    outcome = Dump::of(image) == sound ? Outcome::kSame : Outcome::kOther;
  } catch (const Error& error) {
    EXPECT_TRUE(error.kind() == ErrorKind::kCorruptData || error.kind() == ErrorKind::kUnsupported)
        << error.what();
    EXPECT_EQ(error.path(), "damaged.h5") << error.what();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  return outcome;
}

class Damage : public ::testing::TestWithParam<H5F_libver_t> {};
INSTANTIATE_TEST_SUITE_P(All, Damage, ::testing::Values(H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST));

TEST_P(Damage, MendedChangesAreReadOrNamed) {
  const FileImage sound = write_image(GetParam(), true);
  const std::string dump = Dump::of(sound);
  const std::vector<Checked> structures = find_checked(sound);
  if (GetParam() == H5F_LIBVER_LATEST) {
    EXPECT_GT(structures.size(), 25u);
  }
  std::mt19937_64 random(7);
  std::array<int, 3> counts{};
  constexpr std::array<unsigned, 6> kValues{0, 1, 0x7f, 0x80, 0xfe, 0xff};
  for (int round = 0; round < 2000; ++round) {
    FileImage image = sound;
    const int n_changes = 1 + static_cast<int>(random() % 3);
    for (int change = 0; change < n_changes; ++change) {
      std::size_t at = random() % image.size();
      if (!structures.empty() && random() % 4 != 0) {
        const Checked& part = structures[random() % structures.size()];
        at = part.begin + random() % (part.end - part.begin);
      }
      image[at] = random() % 2 == 0 ? image[at] ^ static_cast<std::byte>(1u << random() % 8)
                                    : static_cast<std::byte>(kValues[random() % kValues.size()]);
    }
    mend(image, structures);
    ++counts[static_cast<std::size_t>(outcome_of(image, dump))];
  }
  EXPECT_GT(counts[0], 100);
  EXPECT_GT(counts[1], 100);
  EXPECT_GT(counts[2], 100);
}

// Where all metadata has checksums nothing else than what was written is ever read.
TEST(UnmendedDamage, ChecksumsTellEveryChange) {
  const FileImage sound = write_image(H5F_LIBVER_LATEST, false);
  const std::string dump = Dump::of(sound);
  std::mt19937_64 random(8);
  int n_errors = 0;
  for (int round = 0; round < 2000; ++round) {
    FileImage image = sound;
    image[random() % image.size()] ^= static_cast<std::byte>(1u << random() % 8);
    const Outcome outcome = outcome_of(image, dump);
    EXPECT_NE(outcome, Outcome::kOther);
    n_errors += outcome == Outcome::kError;
  }
  EXPECT_GT(n_errors, 300);
}

TEST_P(Damage, ATruncatedFileIsAnErrorEverywhere) {
  const FileImage sound = write_image(GetParam(), true);
  const std::string dump = Dump::of(sound);
  for (std::size_t n = 0; n < sound.size(); n += 1 + sound.size() / 500) {
    const FileImage image(sound.begin(), sound.begin() + static_cast<std::ptrdiff_t>(n));
    EXPECT_EQ(outcome_of(image, dump), Outcome::kError) << n;
  }
}

}  // namespace
}  // namespace cellfeed::hdf5
