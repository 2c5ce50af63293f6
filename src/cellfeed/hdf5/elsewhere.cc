#include "cellfeed/hdf5/elsewhere.h"

#include "cellfeed/base/error.h"
#include "cellfeed/hdf5/local_heap.h"

namespace cellfeed::hdf5 {

std::string read_external_name(Cursor message) {
  if (const int version = message.u8(); version != 1)
    message.fail("version {} of an external file list is not known", version);
  message.skip(3 + 2);
  if (message.u16() == 0) message.fail("an external file list without a file");
  const LocalHeap names(message.file(), message.read_address());
  return names.text(message.read_length());
}

void throw_elsewhere(const std::string& path, const std::string& name, const char* how,
                     const std::string& where) {
  throw_error(ErrorKind::kUnsupported, path,
              "'{}' {} another file, and nothing outside of a file is read: '{}'; write the data "
              "into one file (adata.write_h5ad)",
              name, how, where);
}

}  // namespace cellfeed::hdf5
