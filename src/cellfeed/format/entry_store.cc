#include "cellfeed/format/entry_store.h"

#include "cellfeed/base/argument_text.h"
#include "cellfeed/base/error.h"

namespace cellfeed::format {
namespace {

[[noreturn]] void throw_no_rows(const EntryStore& store) {
  throw_error(ErrorKind::kUnsupported, store.info().path,
              "'{}' is stored {} and has no rows to read", store.info().layer, store.storage());
}

}  // namespace

OpenOptions EntryStore::choice() const {
  OpenOptions options;
  options.layer = info().layer;
  return options;
}

std::unique_ptr<FetchedRows> EntryStore::begin(std::span<const std::int64_t>,
                                               const ReadContext&) const {
  throw_no_rows(*this);
}

ReadPlan EntryStore::plan(std::span<const std::int64_t>) const { throw_no_rows(*this); }

std::vector<std::unique_ptr<RowStore>> make_rows(std::unique_ptr<EntryStore> store,
                                                 const OpenOptions& options) {
  if (options.row_maker) return options.row_maker(std::move(store), options);
  throw_error(ErrorKind::kUnsupported, store->info().path,
              "'{}' is stored {}; its rows have to be written to a cache before they can be read, "
              "and there is to be none: name a folder for it ({}), or convert the data once: "
              "cellfeed shard ... --output-dir DIR",
              store->info().layer, store->storage(), argument("cache_dir"));
}

}  // namespace cellfeed::format
