#include "cellfeed/format/content_fingerprint.h"

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "cellfeed/base/mix.h"
#include "cellfeed/hdf5/dataset_bytes.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/io/range_reads.h"
#include "cellfeed/io/running_checksum.h"

namespace cellfeed::format {
namespace {

constexpr std::uint64_t kWholeFileBytes = 4 << 20;
constexpr std::uint64_t kEndBytes = 64 << 10;
constexpr std::uint64_t kSampleBytes = 4096;
constexpr std::uint64_t kFileSamples = 256;
constexpr std::uint64_t kDatasetSamples = 8;
// Of many files at once: what lies between samples is not read for its own sake.
constexpr std::int64_t kLongestGap = 16 << 10;
constexpr int kMaxHashedDepth = 3;  // of groups: "obs" / a column / its values

// Of values and of bytes of one file, which are read together when all are known.
class Hash {
 public:
  explicit Hash(const io::ByteSource* file) : file_(file) {}
  void add(std::uint64_t value) {
    own_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void add(const std::string& text) {
    add(text.size());
    own_.append(text);
  }
  // Bytes of the file from `offset` on, as far as it has them.
  void add_bytes(std::uint64_t offset, std::uint64_t size) {
    const auto all = static_cast<std::uint64_t>(file_->size());
    if (offset >= all) return;
    parts_.push_back({own_.size(),
                      {static_cast<std::int64_t>(offset),
                       static_cast<std::int64_t>(std::min(size, all - offset))}});
  }
  // Some of [offset, offset + size), at places that follow from the size alone.
  void add_samples(std::uint64_t offset, std::uint64_t size, std::uint64_t n) {
    if (size <= n * kSampleBytes) return add_bytes(offset, size);
    for (std::uint64_t i = 0; i < n; ++i)
      add_bytes(offset + (size - kSampleBytes) / (n - 1) * i, kSampleBytes);
  }
  std::uint64_t digest() const;

 private:
  // Behind so many of its own bytes, a range of the file.
  struct Part {
    std::size_t own_bytes = 0;
    io::ByteRange range;
  };
  std::vector<std::span<const std::byte>> read_parts(io::RangeReads& reads) const;

  const io::ByteSource* file_;
  std::string own_;
  std::vector<Part> parts_;
};

// reads: of what is not mapped.
std::vector<std::span<const std::byte>> Hash::read_parts(io::RangeReads& reads) const {
  std::vector<std::span<const std::byte>> read;
  if (parts_.empty()) return read;
  if (const auto map = file_->map(); !map.empty()) {
    for (const Part& part : parts_)
      read.push_back(map.subspan(static_cast<std::size_t>(part.range.offset),
                                 static_cast<std::size_t>(part.range.length)));
    return read;
  }
  for (const Part& part : parts_) reads.add(*file_, part.range);
  reads.begin();
  reads.wait();
  for (std::size_t i = 0; i < parts_.size(); ++i) read.push_back(reads.bytes(i));
  return read;
}

std::uint64_t Hash::digest() const {
  io::RangeReads reads(kLongestGap);
  const auto read = read_parts(reads);
  const auto own = std::as_bytes(std::span(own_));
  io::RunningChecksum checksum;
  std::size_t done = 0;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    checksum.add(own.subspan(done, parts_[i].own_bytes - done));
    checksum.add(read[i]);
    done = parts_[i].own_bytes;
  }
  checksum.add(own.subspan(done));
  return checksum.value();
}

// First, middle and last chunk, as far as they were written.
void add_chunks(const hdf5::ChunkIndex& index, Hash& hash) {
  const std::uint64_t n_chunks = index.grid().n_chunks();
  if (n_chunks == 0) return;
  const std::array<std::uint64_t, 3> numbers{0, n_chunks / 2, n_chunks - 1};
  std::array<hdf5::ChunkPlace, 3> places;
  index.locate(numbers, places);
  for (const hdf5::ChunkPlace& place : places) {
    if (!place.is_written) continue;
    hash.add(place.n_bytes);
    hash.add_samples(place.offset, place.n_bytes, kDatasetSamples / 2);
  }
}

void add_dataset(const hdf5::Dataset& dataset, Hash& hash) {
  const hdf5::FileBytes& file = dataset.bytes();
  hash.add_bytes(static_cast<std::uint64_t>(file.source_offset(dataset.address())), 256);
  for (const std::uint64_t length : dataset.shape()) hash.add(length);
  const hdf5::DatasetBytes bytes(dataset);
  if (const auto* index = bytes.chunk_index()) return add_chunks(*index, hash);
  const auto* contiguous = std::get_if<hdf5::ContiguousLayout>(&dataset.layout());
  if (contiguous != nullptr && file.holds(contiguous->address, bytes.n_bytes()))
    hash.add_samples(static_cast<std::uint64_t>(file.source_offset(contiguous->address)),
                     bytes.n_bytes(), kDatasetSamples);
}

// Links that lead elsewhere are hashed by name. So is a dataset that is stored
// elsewhere or has filters that are not undone here.
void add_object(const hdf5::Object& object, int depth, Hash& hash) {
  if (object.kind() == hdf5::ObjectKind::kDataset) {
    try {
      add_dataset(object.dataset(), hash);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUnsupported) throw;
    }
    return;
  }
  if (object.kind() != hdf5::ObjectKind::kGroup || depth == kMaxHashedDepth) return;
  const hdf5::Group group = object.group();
  for (const hdf5::Link& link : group.members()) {
    hash.add(link.name);
    if (link.kind == hdf5::LinkKind::kHard)
      if (const auto member = group.find(link.name)) add_object(*member, depth + 1, hash);
  }
}

// Of a file as bytes, whatever they mean.
std::uint64_t sampled_digest(const io::ByteSource& source) {
  const auto size = static_cast<std::uint64_t>(source.size());
  Hash hash(&source);
  hash.add(size);
  hash.add_samples(0, size,
                   size <= kWholeFileBytes ? kWholeFileBytes / kSampleBytes : kFileSamples);
  return hash.digest();
}

std::uint64_t fingerprint_of(const H5File& file, std::span<const std::string> groups) {
  const auto n_bytes = static_cast<std::uint64_t>(file.size());
  Hash hash(&file.row_source());
  hash.add(n_bytes);
  if (n_bytes <= kWholeFileBytes) {
    hash.add_bytes(0, n_bytes);
    return hash.digest();
  }
  const std::uint64_t step = (n_bytes - kSampleBytes) / (kFileSamples - 1);
  if (const auto* ahead = file.ahead())
    ahead->ask(kFileSamples, [&](std::int64_t i, std::vector<io::ByteRange>& ranges) {
      ranges.push_back({i * static_cast<std::int64_t>(step), kSampleBytes});
    });
  hash.add_samples(0, n_bytes, kFileSamples);
  hash.add_bytes(0, kEndBytes);
  hash.add_bytes(n_bytes - kEndBytes, kEndBytes);
  for (const std::string& group : groups) {
    hash.add(group);
    const auto object = file.hdf5().find(group);
    if (object && &object->bytes() == &file.hdf5().bytes()) add_object(*object, 0, hash);
  }
  return hash.digest();
}

std::uint64_t fingerprint_of(std::span<const std::string> paths) {
  Hash hash(nullptr);
  for (const std::string& path : paths) {
    const auto source = io::open_file(path, {.map_only = true});
    hash.add(sampled_digest(*source));
    if (source->size() <= static_cast<std::int64_t>(kWholeFileBytes)) continue;
    Hash ends(source.get());
    ends.add_bytes(0, kEndBytes);
    ends.add_bytes(static_cast<std::uint64_t>(source->size()) - kEndBytes, kEndBytes);
    hash.add(ends.digest());
  }
  return hash.digest();
}

std::uint64_t with_choice(std::uint64_t of_content, const std::string& choice) {
  return std::max<std::uint64_t>(1, mix(of_content, choice));
}

}  // namespace

std::uint64_t content_fingerprint(const H5File& file, std::span<const std::string> groups,
                                  const std::string& choice) {
  return with_choice(fingerprint_of(file, groups), choice);
}

std::uint64_t content_fingerprint(std::span<const std::string> paths, const std::string& choice) {
  return with_choice(fingerprint_of(paths), choice);
}

}  // namespace cellfeed::format
