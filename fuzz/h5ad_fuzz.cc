// .h5ad files with changed bytes, their checksums mended or not: whatever a file holds is read, as
// values that fit together and are the same when they are read again, or refused with an error of
// the right kind. An input is a list of changes to one of the files of corpus/h5ad, which
// corpus/make_h5ad.py wrote with anndata and h5py.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>

#include "cellfeed/testing/temp_dir.h"
#include "fuzz/file_bytes.h"
#include "fuzz/hdf5_changes.h"
#include "fuzz/store_reading.h"
#include "fuzz/target.h"

namespace {

namespace fuzz = cellfeed::fuzz;
using fuzz::require;
using fuzz::SoundFile;

const std::vector<SoundFile>& sound_files() {
  static const std::vector<SoundFile> files = [] {
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(CELLFEED_FUZZ_CORPUS "/h5ad"))
      paths.push_back(entry.path().string());
    std::sort(paths.begin(), paths.end());
    require(!paths.empty(), "there is a corpus");
    std::vector<SoundFile> made;
    for (const std::string& path : paths) {
      const fuzz::Bytes read = fuzz::read_bytes(path);
      std::vector<std::byte> bytes(read.size());
      std::memcpy(bytes.data(), read.data(), read.size());
      made.push_back(fuzz::sound_file(std::move(bytes)));
    }
    return made;
  }();
  return files;
}

std::string read(const std::string& path, std::int64_t cache_bytes) {
  return fuzz::StoreReading().read(path, cache_bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  static const cellfeed::testing::TempDir dir;
  const std::string path = dir.file("a.h5ad");
  const SoundFile& sound = sound_files()[data[0] % sound_files().size()];
  const auto bytes = fuzz::changed(sound, {data + 2, size - 2}, data[1] % 4 != 0);
  const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.data());
  fuzz::write_bytes(path, fuzz::Bytes(first, first + bytes.size()));
  const fuzz::TimeLimit limit;
  const std::string cached = read(path, 1 << 20);
  require(cached == read(path, 0), "the same without a cache");
  if (size == 2) require(cached.find("error") == std::string::npos, "sound files are read");
  return 0;
}

std::vector<std::vector<std::uint8_t>> cellfeed::fuzz::seed_inputs() {
  std::vector<std::vector<std::uint8_t>> seeds;
  std::mt19937 random(1);
  for (std::size_t file = 0; file < sound_files().size(); ++file) {
    seeds.push_back({static_cast<std::uint8_t>(file), 1});
    for (int n = 0; n < 200; ++n)
      seeds.push_back(random_changes(sound_files()[file], file, random));
  }
  return seeds;
}
