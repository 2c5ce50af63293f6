// KeptStore: a store and the directory its file is in, which goes with it. For tests.
#pragma once

#include <memory>
#include <utility>

#include "cellfeed/testing/slow_row_store.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::testing {

class KeptStore final : public ForwardingRowStore {
 public:
  KeptStore(std::unique_ptr<TempDir> directory, std::unique_ptr<format::RowStore> store)
      : ForwardingRowStore(std::move(store)), directory_(std::move(directory)) {}

 private:
  std::unique_ptr<TempDir> directory_;
};

}  // namespace cellfeed::testing
