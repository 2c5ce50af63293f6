// The plan of a conversion: all that decides the bytes of its shards, as a text that the journal
// keeps, so that only the same conversion goes on from there.
#pragma once

#include <span>
#include <string>

#include "cellfeed/base/dtype.h"
#include "cellfeed/convert/inputs/sources.h"
#include "cellfeed/convert/shard_conversion.h"

namespace arrow {
class Schema;
}

namespace cellfeed::convert {

// A matrix as it is written. Lifetime: the sources outlive it.
struct PlannedMatrix {
  std::string name;
  const Sources& sources;
  DType value_dtype = DType::kF32;
};

// matrices: X first.
std::string conversion_plan(const ConvertOptions& options, std::span<const PlannedMatrix> matrices,
                            const arrow::Schema& obs_schema);

// Shards name their sources, in JSON and in Arrow. Throws kInvalidArgument.
void require_utf8_paths(const Sources& sources);

// What differs between two of them, in the words of the options: "gene_order was mean, now source".
std::string plan_difference(const std::string& before, const std::string& now);

}  // namespace cellfeed::convert
