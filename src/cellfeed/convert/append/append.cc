#include "cellfeed/convert/append/append.h"

#include <algorithm>
#include <utility>

#include "cellfeed/base/argument_text.h"
#include "cellfeed/base/error.h"
#include "cellfeed/convert/append/append_checks.h"
#include "cellfeed/convert/append/known_sources.h"
#include "cellfeed/convert/append/shard_base.h"
#include "cellfeed/convert/append/value_kinds.h"
#include "cellfeed/convert/conversion_run.h"
#include "cellfeed/convert/open_conversion.h"

namespace cellfeed::convert {
namespace {

namespace shard = format::shard;
using BasePtr = std::shared_ptr<const ShardBase>;

// The one layer that the shards hold of their sources.
std::string layer_of(const ShardBase& base) {
  const std::vector<shard::SourceEntry>& sources = base.manifest.sources;
  const std::string layer = sources.empty() ? "X" : sources.front().layer;
  for (const shard::SourceEntry& source : sources)
    if (source.layer != layer)
      throw_error(ErrorKind::kInvalidArgument, base.dir(),
                  "its sources gave '{}' and '{}': say which layer of the new ones goes with them "
                  "({})",
                  layer, source.layer, argument("layer"));
  return layer;
}

ConvertOptions conversion_of(const AppendOptions& options, const BasePtr& base) {
  ConvertOptions convert = options.convert;
  const shard::Manifest& manifest = base->manifest;
  convert.base = base;
  convert.existing = options.resumes ? ExistingTarget::kResumeAppend : ExistingTarget::kAppend;
  if (convert.shard_size == 0) convert.shard_size = std::max<std::int64_t>(1, manifest.shard_size);
  convert.layout = manifest.layout;
  convert.gene_order = manifest.gene_order;
  convert.carries_annotations = false;
  return convert;
}

AppendResult run_append(OpenConversion& conversion, AppendResult result) {
  ConversionRun run(conversion);
  run.write_missing();
  result.shards = run.finish();
  for (std::string& warning : result.shards.warnings) result.warnings.push_back(std::move(warning));
  result.shards.warnings.clear();
  result.n_cells_added = conversion.sources().n_cells();
  result.n_shards_added = conversion.n_shards();
  return result;
}

// An append that these options made, and that nothing is left to do of.
std::optional<AppendResult> finished_before(const AppendOptions& options, const ShardBase& base) {
  if (!options.resumes || base.manifest.appends.empty()) return std::nullopt;
  OpenConversion conversion(conversion_of(options, before_last_append(base)));
  if (shard::plan_fingerprint(conversion.plan()) != base.manifest.plan_fingerprint)
    return std::nullopt;
  return run_append(conversion, {});
}

void describe_missing_genes(const ShardBase& base, const Sources& sources,
                            const AppendOptions& options, AppendResult& result) {
  MissingGenes missing = missing_genes(base, sources);
  if (options.refuse_missing_genes && missing.n_genes > 0)
    throw Error(ErrorKind::kNoSuchKey, missing.text);
  result.n_missing_genes = missing.n_genes;
  result.missing_genes_text = std::move(missing.text);
}

}  // namespace

MatricesOfShards matrices_to_append(const std::string& dir, const std::string& layer) {
  const BasePtr base = open_base(dir);
  MatricesOfShards matrices{.layer = layer.empty() ? layer_of(*base) : layer,
                            .genes = base->genes()};
  for (const shard::MatrixEntry& matrix : base->manifest.matrices)
    (format::is_obsm(matrix.name) ? matrices.obsm : matrices.layers).push_back(matrix.name);
  return matrices;
}

AppendResult append_to_shards(const AppendOptions& options) {
  const BasePtr base = open_base(options.convert.output_dir);
  if (auto finished = finished_before(options, *base)) return *std::move(finished);
  const ConvertOptions convert = conversion_of(options, base);
  require_same_axis(*base, convert.input);
  OpenConversion conversion(convert);
  const Sources& sources = conversion.sources();
  AppendResult result;
  const bool may_mix = convert.input.cells->allows_mixed_processing();
  if (!may_mix) require_same_processing(*base, sources);
  if (options.extra_genes == ExtraGenes::kRefuse) refuse_extra_genes(*base, sources);
  describe_missing_genes(*base, sources, options, result);
  result.warnings = look_for_known_sources(*base, sources, options.is_forced);
  if (!may_mix)
    for (std::string& warning : look_at_value_kinds(*base, sources, options.is_forced))
      result.warnings.push_back(std::move(warning));
  note_other_layer(*base, sources, result.warnings);
  require_obs_that_fits(*base, sources.obs());
  if (base->manifest.annotations)
    result.warnings.push_back(fmt::format(
        "{}: uns and varm were those of its one source, and are left out now that it holds cells "
        "of others",
        base->dir()));
  return run_append(conversion, std::move(result));
}

}  // namespace cellfeed::convert
