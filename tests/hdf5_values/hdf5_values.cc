// usage: hdf5_values FILE [map|pages]. Prints, for each dataset of an HDF5 file, its path, the
// bytes of its elements as they are stored, or why they are not readable: a line "value PATH N" and
// N bytes, or a line "error PATH KIND MESSAGE"; for what cannot be opened a line "error / ...".
#include <cstdio>
#include <set>
#include <string>

#include "cellfeed/base/error.h"
#include "cellfeed/hdf5/dataset_bytes.h"
#include "cellfeed/hdf5/file.h"
#include "cellfeed/io/local_file.h"

namespace {

using cellfeed::Error;
namespace hdf5 = cellfeed::hdf5;
namespace io = cellfeed::io;

constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 30;

void print_error(const std::string& path, const Error& error) {
  std::string text = error.what();
  for (char& c : text)
    if (c == '\n') c = ' ';
  std::printf("error %s %s %s\n", path.c_str(),
              std::string(cellfeed::error_kind_name(error.kind())).c_str(), text.c_str());
}

class Walk {
 public:
  void visit(const hdf5::Object& object) {
    if (object.kind() == hdf5::ObjectKind::kDataset) return print(object.dataset());
    if (object.kind() != hdf5::ObjectKind::kGroup || !visited_.insert(object.address()).second)
      return;
    const hdf5::Group group = object.group();
    for (const std::string& name : group.member_names()) {
      try {
        if (const auto member = group.find(name)) visit(*member);
      } catch (const Error& error) {
        print_error(object.path() + "/" + name, error);
      }
    }
  }

 private:
  static void print(const hdf5::Dataset& dataset) {
    const auto values = hdf5::DatasetBytes(dataset).read_all(kMaxBytes);
    std::printf("value %s %zu\n", dataset.path().c_str(), values.size());
    std::fwrite(values.data(), 1, values.size(), stdout);
  }

  std::set<hdf5::Address> visited_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  try {
    const bool has_map = argc < 3 || std::string(argv[2]) == "map";
    io::LocalFileOptions options;
    options.access = has_map ? io::FileAccess::kMap : io::FileAccess::kPread;
    Walk().visit(hdf5::File::open(io::open_local_file(argv[1], options)).root());
  } catch (const Error& error) {
    print_error("/", error);
  }
  return 0;
}
