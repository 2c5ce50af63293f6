#include "cellfeed/convert/preprocess/preprocess.h"

#include "cellfeed/convert/h5ad_output.h"
#include "cellfeed/convert/preprocess/preprocessing.h"

namespace cellfeed::convert {
namespace {

void write_h5ad(const ConvertOptions& convert, format::h5ad::Compression compression,
                PreprocessResult& result) {
  ExportOptions file;
  file.input = convert.input;
  file.output = convert.output_dir;
  file.obs = convert.obs;
  file.keep_stored_gene_order = true;
  file.compression = compression;
  file.threads = convert.threads;
  file.memory_budget = convert.memory_budget;
  file.overwrite = convert.existing == ExistingTarget::kOverwrite;
  file.progress = convert.progress;
  file.stop = convert.stop;
  const ExportResult exported = export_h5ad(file);
  result.n_cells = exported.n_cells;
  result.n_genes = exported.n_genes;
  result.nnz = exported.nnz;
  result.bytes = exported.bytes;
  result.left_out_text = exported.left_out_text;
}

}  // namespace

PreprocessResult preprocess(const PreprocessOptions& options) {
  const ProgressMeter clock({}, "", 0);
  Preprocessing preprocessing(options);
  const KeptCells kept = preprocessing.choose();
  const ConvertOptions convert = preprocessing.conversion_of(kept);
  PreprocessResult result;
  result.processing_json = convert.input.cells->processing().json;
  if (is_h5ad_name(convert.output_dir))
    write_h5ad(convert, options.compression, result);
  else
    describe_shards(convert_to_shards(convert), result);
  preprocessing.describe(result);
  result.seconds = clock.seconds();
  result.cells_per_second =
      result.seconds > 0 ? static_cast<double>(result.n_cells_before) / result.seconds : 0;
  return result;
}

}  // namespace cellfeed::convert
