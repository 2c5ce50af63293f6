// Gene axes of several stores joined to one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cellfeed/matrix/csr.h"

namespace cellfeed::collection {

enum class Join { kNone, kInner, kOuter, kFixed };

inline constexpr std::string_view kRenameGenes =
    "rename them in the file (adata.var_names_make_unique())";

inline constexpr std::string_view kOtherVarKey = "choose another column by var_key";

// Of "inner", "outer" and "" (none); kFixed where the axis is fixed by a list of genes, and then
// the name must be "". Throws kInvalidArgument.
Join join_from_name(std::string_view name, bool has_fixed_axis = false);

struct GeneJoin {
  matrix::GeneAxis genes;  // repeated: of any store
  // Per store: column of the store -> column of the joined axis, -1 where it is dropped; null = the
  // same axis. Stores with equal axes share one map.
  std::vector<std::shared_ptr<const std::vector<std::int32_t>>> maps;
  // Of a fixed axis: the genes that no store has, in its order.
  std::vector<std::string> absent;
  // Of a fixed axis: stores that have none of its genes.
  std::vector<std::size_t> stores_without;
};

// kNone: all axes must be equal. kInner: genes of every store, in the first one's order. kOuter:
// the sorted union. kFixed: exactly `fixed`, in that order, of which some store must have one at
// least. Throws kInvalidArgument naming stores and genes; kNoSuchKey where no gene is found.
GeneJoin join_genes(std::span<const matrix::GeneAxis* const> axes,
                    std::span<const std::string> paths, Join join,
                    const std::vector<std::string>& fixed);

// Some columns of a joined axis, and the maps of the stores to them.
struct GeneSelection {
  matrix::GeneAxis genes;
  std::vector<std::shared_ptr<const std::vector<std::int32_t>>> maps;
};

// These columns, in their order. Throws kInvalidArgument for none and for one given twice;
// kOutOfRange outside of the axis.
GeneSelection select_genes(const matrix::GeneAxis& genes,
                           std::span<const std::shared_ptr<const std::vector<std::int32_t>>> maps,
                           std::span<const std::int64_t> columns);

// What to say of absent genes, stores without any, and ids joined to symbols; empty: nothing.
std::string describe_absent(const GeneJoin& joined, std::span<const matrix::GeneAxis* const> axes,
                            std::span<const std::string> paths);

// Throws kInvalidArgument naming the first repeated gene names of one store. remedy: what else than
// numbering them helps.
void require_unique(const matrix::GeneAxis& axis, const std::string& path,
                    std::string_view remedy = kRenameGenes);
// Appends "-1", "-2", ... to repeated names, as anndata's var_names_make_unique does; the axis says
// which they were.
void make_unique(matrix::GeneAxis& axis);

}  // namespace cellfeed::collection
