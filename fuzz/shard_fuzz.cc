// Any bytes as a file of a shard directory: an error of the right kind, or rows and columns that
// lie inside the file.
#include <arrow/api.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/cells_file_layout.h"
#include "cellfeed/format/shard/packed_rows.h"
#include "cellfeed/format/shard/shard_store.h"
#include "cellfeed/io/memory_source.h"
#include "cellfeed/testing/shard_fixture.h"
#include "cellfeed/testing/temp_dir.h"
#include "fuzz/file_bytes.h"
#include "fuzz/target.h"

namespace {

using cellfeed::DType;
using cellfeed::Error;
using cellfeed::ErrorKind;
namespace shard = cellfeed::format::shard;
using cellfeed::fuzz::Bytes;
using cellfeed::fuzz::read_bytes;
using cellfeed::fuzz::write_bytes;

// The first byte of an input says what the others are.
enum Kind : std::uint8_t { kCells, kManifest, kFixedObs, kJournal, kKinds };

constexpr std::int64_t kMaxRows = 200;
constexpr std::int64_t kMaxEntries = 1 << 20;

bool is_expected(const Error& error) {
  return error.kind() != ErrorKind::kInternal && error.kind() != ErrorKind::kCancelled;
}

void read_cells(Bytes bytes) {
  // With a checksum that fits, so that what lies behind that check is tried as well.
  if (bytes.size() >= static_cast<std::size_t>(shard::kHeaderBytes)) {
    const std::size_t at = shard::kHeaderBytes - 8;
    const std::uint64_t checksum =
        shard::checksum_bytes(std::as_bytes(std::span(bytes.data(), at)));
    std::memcpy(bytes.data() + at, &checksum, sizeof(checksum));
  }
  const auto data = std::as_bytes(std::span<const std::uint8_t>(bytes));
  const auto file = std::make_shared<const shard::CellsFile>(
      cellfeed::io::make_memory_source("cells", std::vector<std::byte>(data.begin(), data.end())),
      nullptr, shard::CellsFileOptions{.verifies = false});
  for (std::int64_t row = 0; row < std::min(kMaxRows, file->header().n_cells); ++row) {
    try {
      const auto fetched = shard::begin_packed(file, {&row, 1});
      std::int64_t nnz = 0;
      fetched->sizes({&nnz, 1});
      if (nnz > kMaxEntries) continue;
      const std::int64_t place = 0;
      std::vector<std::int32_t> indices(static_cast<std::size_t>(nnz));
      std::vector<float> values(indices.size());
      std::int32_t count = 0;
      fetched->decode(0, 1,
                      {.place = &place,
                       .indices = indices.data(),
                       .values = values.data(),
                       .dtype = DType::kF32,
                       .casting = cellfeed::Casting::kSameKind,
                       .counts = &count});
      for (const auto index : indices)
        if (index < 0 || index >= file->header().n_genes) std::abort();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kCorruptData) std::abort();
    }
  }
}

// A sound directory in which one file is replaced.
class Directory {
 public:
  Directory() {
    std::filesystem::create_directory(dir_.file("finished"));
    cellfeed::testing::write_fixture(dir_.file("finished"),
                                     {.n_cells = 12, .shard_size = 12, .n_genes = 20});
    std::filesystem::create_directory(dir_.file("unfinished"));
    shard::PartialManifest::start(dir_.file("unfinished"), "plan")
        .add(cellfeed::testing::write_fixture_shard(dir_.file("unfinished"), {}, 0));
  }
  std::string finished() const { return dir_.file("finished"); }
  std::string unfinished() const { return dir_.file("unfinished"); }

 private:
  cellfeed::testing::TempDir dir_;
};

const Directory& directory() {
  static const Directory directory;
  return directory;
}

// Reads every byte of a column the way the loader gathers from it.
void touch(const cellfeed::matrix::FixedColumn& column) {
  volatile std::uint8_t sum = 0;
  const auto add = [&](const void* data, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i)
      sum = static_cast<std::uint8_t>(sum + static_cast<const std::uint8_t*>(data)[i]);
  };
  add(column.values,
      column.length * static_cast<std::int64_t>(cellfeed::dtype_bytes(column.dtype)));
  if (column.validity != nullptr) add(column.validity, (column.length + 7) / 8);
  cellfeed::matrix::category_texts(column);
}

void read_fixed_obs(const Bytes& bytes) {
  write_bytes(directory().finished() + "/shard_000000.arrow", bytes);
  cellfeed::format::OpenOptions options;
  options.verify = "never";  // so that what lies behind that check is tried
  const auto stores = shard::open_shards(directory().finished(), options);
  for (const char* name : {"type", "depth", "score", "is_doublet", "_source_file"}) {
    try {
      touch(stores[0]->obs_column(name));
    } catch (const Error& error) {
      if (!is_expected(error)) std::abort();
    }
  }
  if (!stores[0]->read_obs(0, stores[0]->info().n_rows)->ValidateFull().ok()) std::abort();
}

void read_journal(const Bytes& bytes) {
  write_bytes(directory().unfinished() + "/" + shard::kPartialManifestName, bytes);
  shard::PartialManifest::resume(directory().unfinished(), "plan");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const Bytes bytes(data + 1, data + size);
  try {
    switch (data[0] % kKinds) {
      case kCells:
        read_cells(bytes);
        break;
      case kManifest:
        shard::manifest_from_json(std::string(bytes.begin(), bytes.end()), "dir");
        break;
      case kFixedObs:
        read_fixed_obs(bytes);
        break;
      case kJournal:
        read_journal(bytes);
        break;
    }
  } catch (const Error& error) {
    if (!is_expected(error)) throw;
  }
  return 0;
}

std::vector<std::vector<std::uint8_t>> cellfeed::fuzz::seed_inputs() {
  const std::pair<Kind, std::string> files[] = {
      {kCells, directory().finished() + "/shard_000000.cells"},
      {kManifest, directory().finished() + "/" + shard::kManifestName},
      {kFixedObs, directory().finished() + "/shard_000000.arrow"},
      {kJournal, directory().unfinished() + "/" + shard::kPartialManifestName}};
  std::vector<Bytes> seeds;
  for (const auto& [kind, path] : files) {
    Bytes seed = read_bytes(path);
    seed.insert(seed.begin(), kind);
    seeds.push_back(seed);
  }
  return seeds;
}
