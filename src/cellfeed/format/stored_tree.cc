#include "cellfeed/format/stored_tree.h"

#include "cellfeed/base/error.h"

namespace cellfeed::format {

std::unique_ptr<StoredArray> StoredTree::open_field(const std::string& path) const {
  throw_error(ErrorKind::kInternal, this->path(), "no field of records: '{}'", path);
}

}  // namespace cellfeed::format
