// Any bytes as one file of a shard directory, packed or dense: what is read with checksums is what
// was written or an error of the right kind, and what is read without them harms nobody.
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <optional>

#include "cellfeed/base/error.h"
#include "cellfeed/testing/shard_fixture.h"
#include "cellfeed/testing/shard_reading.h"
#include "cellfeed/testing/temp_dir.h"
#include "fuzz/file_bytes.h"
#include "fuzz/target.h"

namespace {

namespace shard = cellfeed::format::shard;
namespace testing = cellfeed::testing;
using cellfeed::fuzz::Bytes;
using cellfeed::fuzz::read_bytes;
using cellfeed::fuzz::write_bytes;

// The first byte of an input says which file the others are.
constexpr const char* kFiles[] = {"packed/shard_000000.cells",   "packed/shard_000000.arrow",
                                  "packed/shard_000000.parquet", "packed/genes.parquet",
                                  "packed/shard_metadata.json",  "dense/shard_000000.npy",
                                  "dense/shard_metadata.json"};

// Two sound directories and what is in them.
class Directories {
 public:
  Directories() {
    for (const char* file : kFiles) {
      const std::string name = std::filesystem::path(file).parent_path();
      if (sound_.contains(name)) continue;
      std::filesystem::create_directory(dir_.file(name));
      testing::write_fixture(dir_.file(name), {.n_cells = 9,
                                               .shard_size = 9,
                                               .n_genes = 30,
                                               .layout = name == "dense" ? shard::Layout::kDense
                                                                         : shard::Layout::kPacked});
      sound_[name] = testing::read_everything(dir_.file(name));
    }
  }
  std::string path(const std::string& file) const { return dir_.file(file); }
  const testing::ShardReading& sound(const std::string& name) const { return sound_.at(name); }

 private:
  testing::TempDir dir_;
  std::map<std::string, testing::ShardReading> sound_;
};

const Directories& directories() {
  static const Directories directories;
  return directories;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string file = kFiles[data[0] % std::size(kFiles)];
  const std::string name = std::filesystem::path(file).parent_path();
  const std::string path = directories().path(file);
  const Bytes sound = read_bytes(path);
  write_bytes(path, Bytes(data + 1, data + size));
  const auto always = testing::read_everything(directories().path(name));
  cellfeed::format::OpenOptions options;
  options.verify = "never";
  const auto never = testing::read_everything(directories().path(name), options);
  write_bytes(path, sound);
  if (!testing::wrong_part(always, directories().sound(name)).empty()) std::abort();
  for (const auto& [part, read] : never)
    if (!read.error.empty() && read.kind == cellfeed::ErrorKind::kInternal) std::abort();
  return 0;
}

std::vector<std::vector<std::uint8_t>> cellfeed::fuzz::seed_inputs() {
  std::vector<Bytes> seeds;
  for (std::size_t i = 0; i < std::size(kFiles); ++i) {
    Bytes seed = read_bytes(directories().path(kFiles[i]));
    seed.insert(seed.begin(), static_cast<std::uint8_t>(i));
    seeds.push_back(seed);
  }
  return seeds;
}
