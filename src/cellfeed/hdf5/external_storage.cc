#include "cellfeed/hdf5/external_storage.h"

#include <algorithm>

#include "cellfeed/base/error.h"
#include "cellfeed/hdf5/local_heap.h"

namespace cellfeed::hdf5 {
namespace {

constexpr std::uint64_t kToTheEnd = ~std::uint64_t{0};  // of the dataset

// Bytes of the part, all of which its file must have.
std::uint64_t checked_bytes(const Cursor& message, const io::ByteSource& file, std::uint64_t offset,
                            std::uint64_t stored, std::uint64_t missing) {
  const std::uint64_t n_bytes = stored == kToTheEnd ? missing : stored;
  const auto size = static_cast<std::uint64_t>(file.size());
  if (offset > size || n_bytes > size - offset)
    message.fail("{} bytes at {} of another file, which has {}: '{}'", n_bytes, offset, size,
                 file.path());
  return n_bytes;
}

}  // namespace

ExternalLayout read_external_storage(Cursor message, const ExternalFiles* files,
                                     const std::string& name, std::uint64_t n_bytes) {
  if (const int version = message.u8(); version != 1)
    message.fail("version {} of an external file list is not known", version);
  message.skip(3 + 2);
  const int n_parts = message.u16();
  const LocalHeap names(message.file(), message.read_address());
  const std::string& path = message.file().path();
  ExternalLayout layout;
  std::uint64_t missing = n_bytes;
  for (int i = 0; i < n_parts; ++i) {
    const std::string named = names.text(message.read_length());
    if (files == nullptr) throw_elsewhere(path, name, "is stored in", named);
    ExternalPart part;
    part.source = files->open(path, named, fmt::format("'{}' is stored in", name));
    const std::uint64_t offset = message.read_length();
    const std::uint64_t stored =
        checked_bytes(message, *part.source, offset, message.read_length(), missing);
    part.offset = static_cast<std::int64_t>(offset);
    part.n_bytes = std::min(stored, missing);
    missing -= part.n_bytes;
    layout.parts.push_back(std::move(part));
  }
  if (missing > 0)
    message.fail("files that hold {} of the {} bytes of '{}'", n_bytes - missing, n_bytes, name);
  return layout;
}

void throw_elsewhere(const std::string& path, const std::string& name, const char* how,
                     const std::string& where) {
  throw_error(ErrorKind::kUnsupported, path,
              "'{}' {} another file, and nothing outside of a file is read: '{}'; write the data "
              "into one file (adata.write_h5ad), or name its folder: allow_external=\"FOLDER\" "
              "(--allow-external FOLDER)",
              name, how, where);
}

}  // namespace cellfeed::hdf5
