// Any bytes as the file of an object's blocks: whatever it holds, what is read is the object.
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "cellfeed/cloud/cache/block_source.h"
#include "cellfeed/io/cache_warnings.h"
#include "cellfeed/io/memory_source.h"
#include "cellfeed/testing/temp_dir.h"
#include "fuzz/file_bytes.h"
#include "fuzz/target.h"

namespace {

namespace cloud = cellfeed::cloud;
namespace io = cellfeed::io;

constexpr const char* kFuzzedName = "blocks-0123456789abcdef-0123456789abcdef-a.h5ad";
constexpr const char* kFuzzedPath = "s3://b/a.h5ad";
constexpr std::int64_t kFuzzedBlock = 64;

std::vector<std::byte> object() {
  std::vector<std::byte> bytes(5 * kFuzzedBlock + 3);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 + 1);
  return bytes;
}

std::vector<std::byte> read_object(const std::string& folder) {
  auto file = cloud::BlockFile::open_or_make({folder}, kFuzzedName, kFuzzedPath,
                                             std::ssize(object()), kFuzzedBlock);
  const auto source = cloud::make_block_source(
      cloud::make_block_cache(io::make_memory_source(kFuzzedPath, object()), std::move(file),
                              folder, -1),
      1);
  std::vector<std::byte> bytes(object().size());
  const auto middle = static_cast<std::int64_t>(bytes.size() / 2);
  source->read(middle, std::span(bytes).subspan(static_cast<std::size_t>(middle)));
  source->read(0, bytes);
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const cellfeed::testing::TempDir dir;
  cellfeed::fuzz::write_bytes(dir.file(kFuzzedName), {data, data + size});
  cloud::damage_of_blocks({dir.path()}, kFuzzedName);
  if (read_object(dir.path()) != object()) std::abort();
  if (!cloud::damage_of_blocks({dir.path()}, kFuzzedName).empty()) std::abort();
  io::take_cache_warnings();
  return 0;
}

std::vector<std::vector<std::uint8_t>> cellfeed::fuzz::seed_inputs() {
  const cellfeed::testing::TempDir dir;
  read_object(dir.path());
  return {read_bytes(dir.file(kFuzzedName)), {}};
}
