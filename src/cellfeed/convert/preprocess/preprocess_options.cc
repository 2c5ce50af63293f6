#include "cellfeed/convert/preprocess/preprocess_options.h"

#include <nlohmann/json.hpp>

#include "cellfeed/base/argument_text.h"
#include "cellfeed/base/error.h"
#include "cellfeed/base/nearest_name.h"
#include "cellfeed/transform/normalize.h"

namespace cellfeed::convert {

using Json = nlohmann::json;

std::string flavor_name(HvgFlavor flavor) {
  switch (flavor) {
    case HvgFlavor::kSeurat:
      return "seurat";
    case HvgFlavor::kCellRanger:
      return "cell_ranger";
    case HvgFlavor::kSeuratV3:
      return "seurat_v3";
  }
  throw Error(ErrorKind::kInternal, "a flavor without a name");
}

HvgFlavor flavor_from_name(const std::string& name) {
  if (name == "seurat") return HvgFlavor::kSeurat;
  if (name == "cell_ranger") return HvgFlavor::kCellRanger;
  if (name == "seurat_v3") return HvgFlavor::kSeuratV3;
  const std::vector<std::string> known = {"seurat", "cell_ranger", "seurat_v3"};
  throw_invalid("there is no hvg_flavor '{}'{}", name, suggestion(name, known));
}

void check_processing(const ProcessingOptions& options) {
  if (options.normalize) transform::NormalizeTotal{options.target_sum};  // throws
  if (options.n_top_genes < 0)
    throw_invalid("n_top_genes must not be negative: {}", options.n_top_genes);
  if (options.min_genes < 0) throw_invalid("min_genes must not be negative: {}", options.min_genes);
  if (options.min_cells < 0) throw_invalid("min_cells must not be negative: {}", options.min_cells);
  if (!(options.max_mito_share >= 0 && options.max_mito_share <= 1))
    throw_invalid("max_mito_share is a share from 0 to 1 (0.05 for 5 %): {}",
                  options.max_mito_share);
  if (options.max_mito_share < 1 && options.mito_prefix.empty())
    throw_invalid("mito_prefix must not be empty: it would take every gene for mitochondrial");
  if (!options.batch_key.empty() && options.n_top_genes == 0)
    throw_invalid("batch_key is of highly variable genes: give their number too ({})",
                  interface_in_use() == Interface::kProgram ? "--hvg" : "n_top_genes=");
  if (options.keeps_counts && !options.changes_values())
    throw_invalid("counts are kept beside values that are changed, and no step changes any");
  if (!options.changes_values() && options.n_top_genes == 0 && !options.filters_cells() &&
      options.min_cells == 0)
    throw_invalid("there is nothing to do: no step is asked for");
}

void refuse_repetition(const ProcessingOptions& options, const format::Processing& before,
                       const std::string& path) {
  const bool is_log = before.is_log1p;
  const auto refuse = [&](const std::string& done, const std::string& asked) {
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("its values are {} already ({}), and would be {}; leave that step out, "
                            "start from the raw counts (see {}), or force it",
                            done, before.text(), asked, argument("layer")),
                path);
  };
  if (options.keeps_counts && (is_log || before.is_normalized))
    refuse(is_log ? "log-transformed" : "normalised", "kept as counts");
  if (options.is_forced) return;
  if (before.has_other_base() && options.n_top_genes > 0)
    refuse("log-transformed by another base than e", "taken for natural logarithms");
  if (is_log && options.log_transform) refuse("log-transformed", "log-transformed twice");
  if (is_log && options.normalize) refuse("log-transformed", "normalised after that");
  if (before.is_normalized && options.normalize) refuse("normalised", "normalised twice");
  if ((is_log || before.is_normalized) && options.finds_genes_in_counts())
    refuse(is_log ? "log-transformed" : "normalised", "taken for the counts of seurat_v3");
}

std::string recorded_processing(const ProcessingOptions& options,
                                const format::Processing& before) {
  Json record = Json::parse(before.json);
  if (options.normalize) record["normalize_total"] = options.target_sum;
  if (options.log_transform) record["log1p"] = true;
  if (options.min_genes > 0) record["min_genes"] = options.min_genes;
  if (options.max_mito_share < 1) record["max_mito_share"] = options.max_mito_share;
  if (options.min_cells > 0) record["min_cells"] = options.min_cells;
  if (options.n_top_genes > 0) {
    record["highly_variable_genes"] = {{"flavor", flavor_name(options.flavor)},
                                       {"n_top_genes", options.n_top_genes}};
    if (!options.batch_key.empty())
      record["highly_variable_genes"]["batch_key"] = options.batch_key;
  }
  return record.dump();
}

}  // namespace cellfeed::convert
