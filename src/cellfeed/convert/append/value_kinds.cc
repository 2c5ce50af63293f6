#include "cellfeed/convert/append/value_kinds.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "cellfeed/base/argument_text.h"
#include "cellfeed/base/error.h"
#include "cellfeed/convert/inputs/row_reader.h"
#include "cellfeed/format/shard/shard_store.h"

namespace cellfeed::convert {
namespace {

constexpr std::int64_t kRowsLookedAt = 64;

enum class ValuesAre { kNone, kWhole, kFractions };

ValuesAre kind_of(const format::RowStore& store) {
  CsrPiece piece;
  read_rows(store, 0, std::min(store.info().n_rows, kRowsLookedAt), piece);
  if (piece.nnz() == 0) return ValuesAre::kNone;
  bool is_whole = true;
  for_each_entry(piece, {}, [&](std::int32_t, auto value) {
    if constexpr (std::is_floating_point_v<decltype(value)>)
      is_whole = is_whole && (!std::isfinite(value) || std::trunc(value) == value);
  });
  return is_whole ? ValuesAre::kWhole : ValuesAre::kFractions;
}

// Of the first shard of each part; none where they differ.
ValuesAre kind_of_base(const ShardBase& base) {
  const auto stores = format::shard::open_shards(base.dir(), {});
  std::set<ValuesAre> kinds;
  for (std::size_t part = 0; part < base.obs.size(); ++part)
    for (std::size_t s = 0; s < base.manifest.shards.size(); ++s)
      if (base.manifest.shards[s].first_cell == base.part_begin(part))
        kinds.insert(kind_of(*stores.at(s)));
  kinds.erase(ValuesAre::kNone);
  return kinds.size() == 1 ? *kinds.begin() : ValuesAre::kNone;
}

std::string text_of(ValuesAre kind) {
  return kind == ValuesAre::kWhole ? "whole numbers, as counts are"
                                   : "fractions, as normalised values are";
}

}  // namespace

std::vector<std::string> look_at_value_kinds(const ShardBase& base, const Sources& sources,
                                             bool is_forced) {
  std::vector<std::string> warnings;
  if (!sources.is_by_rows()) return warnings;
  const ValuesAre there = kind_of_base(base);
  if (there == ValuesAre::kNone) return warnings;
  for (std::int64_t s = 0; s < sources.n_sources(); ++s) {
    const ValuesAre kind = kind_of(sources.store(s));
    if (kind == ValuesAre::kNone || kind == there) continue;
    const format::StoreInfo& info = sources.store(s).info();
    const std::string what = fmt::format("'{}' holds {}, and the shards hold {}", info.layer,
                                         text_of(kind), text_of(there));
    if (!is_forced)
      throw_error(ErrorKind::kInvalidArgument, info.path,
                  "{}: choose the layer that goes with them ({}), process it alike, or append it "
                  "all the same with {}",
                  what, argument("layer"), argument("force", "true"));
    warnings.push_back(info.path + ": " + what);
  }
  return warnings;
}

}  // namespace cellfeed::convert
