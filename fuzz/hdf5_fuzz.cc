// HDF5 files with changed bytes, their checksums mended or not: reading ends, in values or in an
// error of the right kind, and gives the same through a map and through pages. An input is a list
// of changes to one of the files that libhdf5 makes here.
#include <hdf5.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <string>

#include "cellfeed/base/error.h"
#include "cellfeed/hdf5/dataset_bytes.h"
#include "cellfeed/hdf5/file.h"
#include "cellfeed/io/memory_source.h"
#include "cellfeed/testing/temp_dir.h"
#include "fuzz/hdf5_changes.h"
#include "fuzz/target.h"

namespace {

namespace hdf5 = cellfeed::hdf5;
namespace io = cellfeed::io;
using cellfeed::Error;
using cellfeed::fuzz::changed;
using cellfeed::fuzz::random_changes;
using cellfeed::fuzz::SoundFile;
using Bytes = std::vector<std::byte>;

constexpr std::uint64_t kMaxDatasetBytes = 1 << 20;
constexpr int kMaxObjects = 500;

enum class Members {
  kOfEveryKind,
  kMany,  // so that groups and attributes are kept in heaps and B-trees
  kOf10x,
};

// How one of the files is made.
struct Recipe {
  H5F_libver_t low;
  hsize_t user_block;
  int offset_size;
  Members members;
};
constexpr Recipe kRecipes[] = {{H5F_LIBVER_EARLIEST, 0, 8, Members::kOfEveryKind},
                               {H5F_LIBVER_LATEST, 0, 8, Members::kOfEveryKind},
                               {H5F_LIBVER_LATEST, 512, 4, Members::kOfEveryKind},
                               {H5F_LIBVER_EARLIEST, 0, 8, Members::kMany},
                               {H5F_LIBVER_LATEST, 0, 8, Members::kMany},
                               {H5F_LIBVER_EARLIEST, 0, 8, Members::kOf10x}};

void add_dataset(hid_t file, const char* name, std::vector<hsize_t> shape,
                 std::vector<hsize_t> most, std::vector<hsize_t> chunk, bool is_filtered,
                 bool is_early) {
  const int rank = static_cast<int>(shape.size());
  const hid_t space = H5Screate_simple(rank, shape.data(), most.data());
  const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
  if (!chunk.empty()) H5Pset_chunk(properties, rank, chunk.data());
  if (is_filtered) {
    H5Pset_shuffle(properties);
    H5Pset_deflate(properties, 1);
    H5Pset_fletcher32(properties);
  }
  if (is_early) H5Pset_alloc_time(properties, H5D_ALLOC_TIME_EARLY);
  const hid_t dataset =
      H5Dcreate2(file, name, H5T_STD_I16LE, space, H5P_DEFAULT, properties, H5P_DEFAULT);
  std::vector<short> values(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<short>(i * 7);
  H5Dwrite(dataset, H5T_NATIVE_SHORT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  H5Dclose(dataset);
  H5Pclose(properties);
  H5Sclose(space);
}

void add_text_attribute(hid_t object, const std::string& name) {
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, H5T_VARIABLE);
  const hid_t space = H5Screate(H5S_SCALAR);
  const hid_t attribute = H5Acreate2(object, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT);
  const char* text = "csr_matrix";
  H5Awrite(attribute, type, &text);
  H5Aclose(attribute);
  H5Sclose(space);
  H5Tclose(type);
}

// Of one dimension, gzipped in chunks that may grow, as Cell Ranger writes all of its lists.
void add_list(hid_t group, const char* name, hid_t type, const void* values, hsize_t n) {
  const hsize_t no_end = H5S_UNLIMITED, chunk = 16;
  const hid_t space = H5Screate_simple(1, &n, &no_end);
  const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(properties, 1, &chunk);
  H5Pset_shuffle(properties);
  H5Pset_deflate(properties, 4);
  const hid_t dataset = H5Dcreate2(group, name, type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
  H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
  H5Dclose(dataset);
  H5Pclose(properties);
  H5Sclose(space);
}

void add_texts(hid_t group, const char* name, const std::string& text, std::size_t n) {
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, text.size());
  std::string texts;
  for (std::size_t i = 0; i < n; ++i) {
    texts += text;
    texts.back() = static_cast<char>('a' + i % 26);
  }
  add_list(group, name, type, texts.data(), n);
  H5Tclose(type);
}

// As Cell Ranger 3 does.
void add_tenx_matrix(hid_t file) {
  constexpr std::size_t kCells = 20, kFeatures = 12, kPerCell = 3;
  const hid_t matrix = H5Gcreate2(file, "matrix", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t features = H5Gcreate2(matrix, "features", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  std::vector<int> data;
  std::vector<std::int64_t> indices, indptr{0};
  for (std::size_t cell = 0; cell < kCells; ++cell) {
    for (std::size_t i = 0; i < kPerCell; ++i) {
      data.push_back(static_cast<int>(cell + i));
      indices.push_back(static_cast<std::int64_t>((cell + 4 * i) % kFeatures));
    }
    indptr.push_back(static_cast<std::int64_t>(data.size()));
  }
  const int shape[] = {kFeatures, kCells};
  add_list(matrix, "data", H5T_NATIVE_INT32, data.data(), data.size());
  add_list(matrix, "indices", H5T_NATIVE_INT64, indices.data(), indices.size());
  add_list(matrix, "indptr", H5T_NATIVE_INT64, indptr.data(), indptr.size());
  add_list(matrix, "shape", H5T_NATIVE_INT32, shape, std::size(shape));
  add_texts(matrix, "barcodes", "AAACCTGAGAAACCAT-1", kCells);
  for (const char* name : {"id", "name", "genome"})
    add_texts(features, name, "ENSG000000", kFeatures);
  add_texts(features, "feature_type", "Gene Expression", kFeatures);
  add_texts(features, "_all_tag_keys", "genome", 1);
  add_text_attribute(file, "chemistry_description");
  H5Gclose(features);
  H5Gclose(matrix);
}

void add_everything(hid_t file, const Recipe& recipe) {
  constexpr hsize_t kNoEnd = H5S_UNLIMITED;
  if (recipe.members == Members::kOf10x) return add_tenx_matrix(file);
  const bool has_many = recipe.members == Members::kMany;
  const int n_members = has_many ? 30 : 2;
  const hid_t group = H5Gcreate2(file, "group", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  for (int i = 0; i < n_members; ++i) {
    add_text_attribute(group, "attribute" + std::to_string(i));
    H5Lcreate_soft("/plain", group, ("soft" + std::to_string(i)).c_str(), H5P_DEFAULT, H5P_DEFAULT);
  }
  H5Lcreate_external("other.h5", "/x", group, "external", H5P_DEFAULT, H5P_DEFAULT);
  H5Gclose(group);
  add_dataset(file, "plain", {5, 4}, {5, 4}, {}, false, false);
  if (has_many) return;
  add_dataset(file, "single", {9}, {9}, {9}, true, false);
  add_dataset(file, "fixed", {9, 5}, {9, 5}, {4, 2}, true, false);
  add_dataset(file, "implicit", {9}, {12}, {2}, false, true);
  add_dataset(file, "growing", {70}, {kNoEnd}, {2}, true, false);
  add_dataset(file, "both", {7, 5}, {kNoEnd, kNoEnd}, {2, 2}, false, false);
}

SoundFile make_file(const Recipe& recipe) {
  const cellfeed::testing::TempDir dir;
  const std::string path = dir.file("sound.h5");
  const hid_t creation = H5Pcreate(H5P_FILE_CREATE);
  H5Pset_userblock(creation, recipe.user_block);
  H5Pset_sizes(creation, static_cast<std::size_t>(recipe.offset_size), 8);
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_libver_bounds(access, recipe.low, H5F_LIBVER_LATEST);
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation, access);
  add_everything(file, recipe);
  H5Fclose(file);
  H5Pclose(access);
  H5Pclose(creation);
  std::ifstream stream(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  Bytes bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return cellfeed::fuzz::sound_file(std::move(bytes));
}

const std::vector<SoundFile>& sound_files() {
  static const std::vector<SoundFile> files = [] {
    std::vector<SoundFile> made;
    for (const Recipe& recipe : kRecipes) made.push_back(make_file(recipe));
    return made;
  }();
  return files;
}

// Without a map.
class PagedSource final : public io::ByteSource {
 public:
  explicit PagedSource(std::shared_ptr<const io::ByteSource> inner) : inner_(std::move(inner)) {}
  const std::string& path() const override { return inner_->path(); }
  std::int64_t size() const override { return inner_->size(); }
  std::string_view backend_name() const override { return "paged"; }
  void read(std::int64_t offset, std::span<std::byte> out) const override {
    inner_->read(offset, out);
  }

 private:
  std::shared_ptr<const io::ByteSource> inner_;
};

// What is in a file, errors included, as one text.
class Reading {
 public:
  std::string read(std::shared_ptr<const io::ByteSource> source) {
    attempt([&] { visit(hdf5::File::open(std::move(source)).root()); });
    return std::move(text_);
  }

 private:
  template <typename Call>
  void attempt(const Call& call) {
    try {
      call();
    } catch (const Error& error) {
      if (error.kind() == cellfeed::ErrorKind::kInternal) std::abort();
      text_ += "error " + std::string(cellfeed::error_kind_name(error.kind())) + "\n";
    }
  }

  void visit(const hdf5::Object& object) {
    text_ += object.path() + "\n";
    if (!visited_.insert(object.address()).second || visited_.size() > kMaxObjects) return;
    attempt([&] {
      for (const auto& attribute : object.attributes()) {
        text_ += attribute.name;
        attempt([&] { text_ += object.text_attribute(attribute.name).value_or("-"); });
        attempt([&] {
          if (const auto numbers = object.integers_attribute(attribute.name))
            text_ += std::to_string(numbers->size());
        });
      }
    });
    attempt([&] {
      if (object.kind() == hdf5::ObjectKind::kGroup) visit_members(object.group());
      if (object.kind() != hdf5::ObjectKind::kDataset) return;
      const auto values = hdf5::DatasetBytes(object.dataset()).read_all(kMaxDatasetBytes);
      text_.append(reinterpret_cast<const char*>(values.data()), values.size());
    });
  }

  void visit_members(const hdf5::Group& group) {
    for (const std::string& name : group.member_names())
      attempt([&] {
        if (const auto member = group.find(name)) visit(*member);
      });
  }

  std::string text_;
  std::set<hdf5::Address> visited_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const SoundFile& sound = sound_files()[data[0] % sound_files().size()];
  const cellfeed::fuzz::TimeLimit limit;
  const std::shared_ptr<const io::ByteSource> source =
      io::make_memory_source("fuzz.h5", changed(sound, {data + 2, size - 2}, data[1] % 4 != 0));
  const std::string mapped = Reading().read(source);
  const std::string paged = Reading().read(std::make_shared<PagedSource>(source));
  if (mapped != paged) std::abort();
  if (size == 2 && mapped.find("error corrupt") != std::string::npos) std::abort();
  return 0;
}

std::vector<std::vector<std::uint8_t>> cellfeed::fuzz::seed_inputs() {
  std::vector<std::vector<std::uint8_t>> seeds;
  std::mt19937 random(1);
  for (std::size_t file = 0; file < std::size(kRecipes); ++file) {
    const SoundFile& sound = sound_files()[file];
    seeds.push_back({static_cast<std::uint8_t>(file), 1});
    for (int n = 0; n < 200; ++n) seeds.push_back(random_changes(sound, file, random));
  }
  return seeds;
}
