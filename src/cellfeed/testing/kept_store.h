// KeptStore: a store and the place its file is in, which goes with it. For tests.
#pragma once

#include <memory>
#include <utility>

#include "cellfeed/testing/slow_row_store.h"

namespace cellfeed::testing {

class KeptStore final : public format::ForwardingStore {
 public:
  KeptStore(std::shared_ptr<const void> place, std::unique_ptr<format::RowStore> store)
      : ForwardingStore(std::move(store)), place_(std::move(place)) {}

 private:
  std::shared_ptr<const void> place_;
};

}  // namespace cellfeed::testing
