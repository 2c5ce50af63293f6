// Zarr stores of changed bytes, as a zip file or as the values of a directory: whatever they hold
// is read, as values that fit together and are the same when they are read again, or refused with
// an error of the right kind.
#include <filesystem>
#include <string>
#include <vector>

#include "cellfeed/testing/memory_file_system.h"
#include "cellfeed/testing/random_csr.h"
#include "cellfeed/testing/temp_dir.h"
#include "cellfeed/testing/zarr_atlas.h"
#include "fuzz/file_bytes.h"
#include "fuzz/store_reading.h"
#include "fuzz/target.h"

namespace {

namespace fuzz = cellfeed::fuzz;
namespace testing = cellfeed::testing;
using fuzz::require;

enum Form : std::uint8_t { kZip, kValues };

// The values of a store: of each the length of its key, the key, its own length in two bytes, and
// the bytes. What is left over is none.
void put_values(std::span<const std::uint8_t> rest, const testing::MemoryPlace& place) {
  const auto take = [&](std::size_t n) {
    const auto part = rest.first(std::min(n, rest.size()));
    rest = rest.subspan(part.size());
    return part;
  };
  while (rest.size() > 3) {
    const auto name = take(take(1)[0]);
    const std::string key(reinterpret_cast<const char*>(name.data()), name.size());
    if (rest.size() < 2) return;
    const auto size = take(2);
    const auto bytes = std::as_bytes(take(size[0] + 256u * size[1]));
    place.files().put(place.file("a.zarr/" + key), {bytes.begin(), bytes.end()});
  }
}

fuzz::Bytes values_of(const testing::ZarrFiles& store) {
  fuzz::Bytes input{kValues};
  for (const auto& [key, bytes] : store.files()) {
    input.push_back(static_cast<std::uint8_t>(key.size()));
    input.insert(input.end(), key.begin(), key.end());
    input.push_back(static_cast<std::uint8_t>(bytes.size() % 256));
    input.push_back(static_cast<std::uint8_t>(bytes.size() / 256));
    for (const std::byte byte : bytes) input.push_back(std::to_integer<std::uint8_t>(byte));
  }
  return input;
}

fuzz::Bytes zip_of(const testing::ZarrFiles& store) {
  fuzz::Bytes input{kZip};
  for (const std::byte byte : store.zipped()) input.push_back(std::to_integer<std::uint8_t>(byte));
  return input;
}

void read_twice(const std::string& path) {
  const std::string cached = fuzz::StoreReading().read(path, 1 << 20);
  require(cached == fuzz::StoreReading().read(path, 0), "the same without a cache");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  if (data[0] % 2 == kZip) {
    static const testing::TempDir dir;
    const std::string path = dir.file("a.zarr.zip");
    fuzz::write_bytes(path, fuzz::Bytes(data + 1, data + size));
    read_twice(path);
    return 0;
  }
  const testing::MemoryPlace place;
  put_values({data + 1, size - 1}, place);
  read_twice(place.file("a.zarr"));
  return 0;
}

std::vector<std::vector<std::uint8_t>> cellfeed::fuzz::seed_inputs() {
  std::vector<std::vector<std::uint8_t>> seeds;
  const auto block = testing::random_csr({.n_rows = 12, .n_cols = 9, .density = 0.4});
  for (const int format : {2, 3})
    for (const bool is_consolidated : {false, true})
      for (const std::int64_t shard_chunks : {0, 3}) {
        testing::ZarrOptions options{
            .format = format, .chunk_elements = 10, .is_consolidated = is_consolidated};
        if (format == 3) options.shard_chunks = shard_chunks;
        options.index_has_crc = is_consolidated;
        const auto store = testing::zarr_atlas(block, DType::kF32, options);
        seeds.push_back(values_of(store));
        seeds.push_back(zip_of(store));
      }
  return seeds;
}
