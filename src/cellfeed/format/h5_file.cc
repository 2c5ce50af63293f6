// An open HDF5 file, and whether it is still the one that was opened.
#include "cellfeed/format/h5_file.h"

#include <array>
#include <tuple>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/format/content_fingerprint.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::format {

void H5File::require_unchanged() const {
  if (row_source_) io::require_all_pages(*row_source_);
  io::require_unchanged(*source_);
}

H5File::H5File(std::string path, bool reads_ahead) : path_(std::move(path)) {
  if (reads_ahead && io::is_local(path_)) {
    std::tie(source_, row_source_) = io::map_local_file_twice(path_);
    ahead_.emplace(*row_source_);
  } else {
    source_ = io::open_file(path_, {.guarded = true});
  }
  hdf5_ = hdf5::File::open(source_);
  require_unchanged();
}

bool is_hdf5(const std::string& path) {
  if (!io::status_of(path).is_file()) return false;
  const auto file = io::open_file(path, {.access = io::FileAccess::kPread, .threads = 1});
  constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
  std::array<char, 8> start{};
  // A user block may come first, of 512 bytes or a power of two more.
  for (std::int64_t at = 0; at + std::ssize(start) <= file->size(); at = at == 0 ? 512 : 2 * at) {
    file->read(at, std::as_writable_bytes(std::span(start)));
    if (std::string_view(start.data(), start.size()) == kSignature) return true;
  }
  return false;
}

std::vector<std::string> H5File::files_of(std::span<const std::string>) const { return {path_}; }

std::uint64_t H5File::fingerprint(std::span<const std::string> groups,
                                  const std::string& choice) const {
  return content_fingerprint(*this, groups, choice);
}

}  // namespace cellfeed::format
