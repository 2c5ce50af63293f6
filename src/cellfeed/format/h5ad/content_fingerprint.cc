#include "cellfeed/format/h5ad/content_fingerprint.h"

#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "cellfeed/format/h5ad/chunk_index.h"
#include "cellfeed/format/h5ad/hdf5_api.h"

namespace cellfeed::format::h5ad {
namespace {

constexpr std::uint64_t kWholeFileBytes = 4 << 20;
constexpr std::uint64_t kEndBytes = 64 << 10;
constexpr std::uint64_t kSampleBytes = 4096;
constexpr std::uint64_t kFileSamples = 256;
constexpr std::uint64_t kDatasetSamples = 8;
constexpr int kMaxDepth = 3;  // of groups: "obs" / a column / its values

class Hash {
 public:
  explicit Hash(std::span<const std::byte> file)
      : file_(file), state_(XXH3_createState(), XXH3_freeState) {
    XXH3_64bits_reset(state_.get());
  }
  void add(std::uint64_t value) { XXH3_64bits_update(state_.get(), &value, sizeof value); }
  void add(const std::string& text) {
    add(text.size());
    XXH3_64bits_update(state_.get(), text.data(), text.size());
  }
  // Bytes of the file from `offset` on, as far as it has them.
  void add_bytes(std::uint64_t offset, std::uint64_t size) {
    if (offset >= file_.size()) return;
    const auto part = file_.subspan(offset, std::min<std::uint64_t>(size, file_.size() - offset));
    XXH3_64bits_update(state_.get(), part.data(), part.size());
  }
  // Some of [offset, offset + size), at places that follow from the size alone.
  void add_samples(std::uint64_t offset, std::uint64_t size, std::uint64_t n) {
    if (size <= n * kSampleBytes) return add_bytes(offset, size);
    for (std::uint64_t i = 0; i < n; ++i)
      add_bytes(offset + (size - kSampleBytes) / (n - 1) * i, kSampleBytes);
  }
  std::uint64_t digest() const { return XXH3_64bits_digest(state_.get()); }

 private:
  std::span<const std::byte> file_;
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state_;
};

// First, middle and last chunk, as far as they were written.
void add_chunks(const H5File& file, hid_t dataset, std::uint64_t header, std::uint64_t length,
                std::uint64_t chunk, Hash& hash) {
  const auto index = ChunkIndex::open(file.bytes(), file.user_block_bytes(), header, file.path());
  const std::uint64_t n_chunks = (length + chunk - 1) / chunk;
  for (const std::uint64_t i : {std::uint64_t{0}, n_chunks / 2, n_chunks - 1}) {
    const hsize_t start = i * chunk;
    if (index) {
      if (const auto place = index->find(start)) {
        hash.add(place->size);
        hash.add_samples(place->offset, place->size, kDatasetSamples / 2);
      }
      continue;
    }
    unsigned skipped = 0;
    haddr_t offset = HADDR_UNDEF;
    hsize_t size = 0;
    if (H5Dget_chunk_info_by_coord(dataset, &start, &skipped, &offset, &size) < 0 ||
        offset == HADDR_UNDEF)
      continue;
    hash.add(size);
    hash.add_samples(offset + file.bases().chunked, size, kDatasetSamples / 2);
  }
}

void add_dataset(const H5File& file, const Handle& dataset, Hash& hash) {
  H5O_info_t object;
  check_hdf5(H5Oget_info2(dataset.get(), &object, H5O_INFO_BASIC), ErrorKind::kCorruptData,
             file.path(), "locating the header of a dataset");
  hash.add_bytes(object.addr + file.user_block_bytes(), 256);
  const auto shape = extents(Handle(H5Dget_space(dataset.get())));
  for (const std::int64_t length : shape) hash.add(static_cast<std::uint64_t>(length));
  const Handle properties(H5Dget_create_plist(dataset.get()));
  if (H5Pget_layout(properties.get()) == H5D_CONTIGUOUS) {
    if (const haddr_t offset = H5Dget_offset(dataset.get()); offset != HADDR_UNDEF)
      hash.add_samples(offset + file.bases().contiguous, H5Dget_storage_size(dataset.get()),
                       kDatasetSamples);
    return;
  }
  hsize_t chunk = 0;
  if (H5Pget_layout(properties.get()) == H5D_CHUNKED && shape.size() == 1 && shape[0] > 0 &&
      H5Pget_chunk(properties.get(), 1, &chunk) == 1 && chunk > 0)
    add_chunks(file, dataset.get(), object.addr, static_cast<std::uint64_t>(shape[0]), chunk, hash);
}

// Links that lead elsewhere are hashed by name: what they lead to is not read.
bool is_hard_link(hid_t group, const std::string& name) {
  H5L_info_t link;
  return H5Lget_info(group, name.c_str(), &link, H5P_DEFAULT) >= 0 && link.type == H5L_TYPE_HARD;
}

void add_object(const H5File& file, const Handle& object, int depth, Hash& hash) {
  if (H5Iget_type(object.get()) == H5I_DATASET) return add_dataset(file, object, hash);
  if (H5Iget_type(object.get()) != H5I_GROUP || depth == kMaxDepth) return;
  for (const std::string& name : member_names(object.get(), file.path())) {
    hash.add(name);
    if (!is_hard_link(object.get(), name)) continue;
    const Handle member(H5Oopen(object.get(), name.c_str(), H5P_DEFAULT));
    if (member) add_object(file, member, depth + 1, hash);
  }
}

}  // namespace

std::uint64_t content_fingerprint(const H5File& file, std::span<const std::string> groups) {
  const auto bytes = file.row_bytes();
  Hash hash(bytes);
  hash.add(bytes.size());
  if (bytes.size() <= kWholeFileBytes) {
    hash.add_bytes(0, bytes.size());
    return hash.digest();
  }
  const std::uint64_t step = (bytes.size() - kSampleBytes) / (kFileSamples - 1);
  if (const auto* ahead = file.ahead())
    ahead->ask(kFileSamples, [&](std::int64_t i, std::vector<io::ByteRange>& ranges) {
      ranges.push_back({i * static_cast<std::int64_t>(step), kSampleBytes});
    });
  hash.add_samples(0, bytes.size(), kFileSamples);
  hash.add_bytes(0, kEndBytes);
  hash.add_bytes(bytes.size() - kEndBytes, kEndBytes);
  const Hdf5Session session;
  for (const std::string& group : groups) {
    hash.add(group);
    if (object_kind(file.id(), group) == ObjectKind::kMissing) continue;
    add_object(file, open_object(file.id(), file.path(), group), 0, hash);
  }
  return hash.digest();
}

}  // namespace cellfeed::format::h5ad
