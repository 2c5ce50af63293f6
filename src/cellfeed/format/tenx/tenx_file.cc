// 10x .h5 files: which matrix, and its shape.
#include "cellfeed/format/tenx/tenx_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/format/h5_array.h"

namespace cellfeed::format::tenx {
namespace {

constexpr char kMatrixGroup[] = "matrix";

bool is_dataset(const hdf5::File& file, const std::string& name) {
  const auto object = file.find(name);
  return object && object->kind() == hdf5::ObjectKind::kDataset;
}

bool holds_matrix(const hdf5::File& file, const std::string& group) {
  return is_dataset(file, group + "/barcodes") && is_dataset(file, group + "/indptr");
}

std::vector<std::string> list_genomes(const hdf5::File& file) {
  std::vector<std::string> genomes;
  for (const hdf5::Link& link : file.root().members())
    if (link.kind == hdf5::LinkKind::kHard && holds_matrix(file, link.name))
      genomes.push_back(link.name);
  return genomes;
}

std::string find_genome(const hdf5::File& file, const std::string& genome) {
  const std::vector<std::string> genomes = list_genomes(file);
  if (genome.empty() && genomes.size() == 1) return genomes.front();
  if (genome.empty())
    throw_error(ErrorKind::kInvalidArgument, file.path(),
                "the file holds a matrix for each of several genomes: choose one with genome: {}",
                fmt::join(genomes, ", "));
  if (std::find(genomes.begin(), genomes.end(), genome) == genomes.end())
    throw_error(ErrorKind::kInvalidArgument, file.path(), "no genome '{}'; there are: {}", genome,
                fmt::join(genomes, ", "));
  return genome;
}

}  // namespace

bool is_tenx(const hdf5::File& file) {
  // Both are looked up anyway when a file is opened as AnnData.
  if (file.find("obs") || file.find("X")) return false;
  return holds_matrix(file, kMatrixGroup) || !list_genomes(file).empty();
}

TenxMatrix find_matrix(const H5File& file, const std::string& genome) {
  TenxMatrix matrix;
  matrix.has_features = holds_matrix(file.hdf5(), kMatrixGroup);
  matrix.group = matrix.has_features ? kMatrixGroup : find_genome(file.hdf5(), genome);
  const std::string name = matrix.group + "/shape";
  find_list(file.hdf5(), name, 2);
  const H5Array stored(file, name, 1, 0, file.bytes());
  stored.require_integers();
  const std::array<chunked::EntryRange, 1> whole{{{0, 2}}};
  const auto shape = read_integers(stored, chunked::ChunkCache(0), whole, nullptr);
  if (shape[0] < 0 || shape[1] < 0)
    throw_error(ErrorKind::kCorruptData, file.path(),
                "the shape must be two non-negative numbers: '{}': {}", name,
                fmt::join(shape, ", "));
  matrix.n_features = shape[0];
  matrix.n_cells = shape[1];
  return matrix;
}

hdf5::Dataset find_list(const hdf5::File& file, const std::string& name, std::int64_t length) {
  const auto object = file.find(name);
  if (!object || object->kind() != hdf5::ObjectKind::kDataset)
    throw_error(ErrorKind::kCorruptData, file.path(),
                "not a whole 10x file: there is no dataset '{}'", name);
  hdf5::Dataset dataset = object->dataset();
  const auto& shape = dataset.shape();
  if (shape.size() != 1 || shape[0] != static_cast<std::uint64_t>(length))
    throw_error(ErrorKind::kCorruptData, file.path(),
                "a list has the wrong length: '{}' has shape ({}), expected {}", name,
                fmt::join(shape, ", "), length);
  return dataset;
}

}  // namespace cellfeed::format::tenx
