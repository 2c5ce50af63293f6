// The conformance suites of io on a bucket that CELLFEED_TEST_BUCKET names, "s3://name" or of
// another store: a Python test gives one on loopback. Without it they are skipped.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>

#include "cellfeed/base/error.h"
#include "cellfeed/cloud/schemes.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/io/small_file.h"
#include "cellfeed/testing/byte_source_conformance.h"
#include "cellfeed/testing/file_system_conformance.h"

namespace cellfeed::testing {
namespace {

// A folder of its own; empty where there is no bucket.
std::string new_folder() {
  const char* bucket = std::getenv("CELLFEED_TEST_BUCKET");
  if (bucket == nullptr) return {};
  cloud::register_schemes();
  static std::atomic<int> n_folders{0};
  std::string folder = fmt::format("{}/{} +%\u00e9", bucket, ++n_folders);
  io::make_directories(folder);
  return folder;
}

struct Bucket {
  // An object that is written again is another: reading what was opened is an error.
  static constexpr bool kKeepsWhatIsOpen = false;
  std::string folder = new_folder();
  const std::string& root() const { return folder; }
};

struct BucketSource {
  static std::shared_ptr<io::ByteSource> open(const TempDir&, std::span<const std::byte> bytes) {
    const std::string folder = new_folder();
    if (folder.empty()) throw Error(ErrorKind::kUnsupported, "CELLFEED_TEST_BUCKET is not set");
    const std::string path = folder + "/bytes";
    io::write_small_file(
        path, std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    return io::open_file(path);
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Bucket, FileSystemConformance, Bucket);
INSTANTIATE_TYPED_TEST_SUITE_P(Bucket, ByteSourceConformance, BucketSource);

}  // namespace
}  // namespace cellfeed::testing
