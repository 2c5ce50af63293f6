#include "cellfeed/convert/shared_conversion.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/convert/h5ad_output.h"
#include "cellfeed/convert/shard_worker.h"
#include "cellfeed/format/shard/manifest_json.h"
#include "cellfeed/io/atomic_file.h"

namespace cellfeed::convert {
namespace {

namespace shard = format::shard;

}  // namespace

SharedConversion::SharedConversion(const SharedOptions& options) : options_(options) {
  ConvertOptions& convert = options_.convert;
  if (is_h5ad_name(convert.output_dir))
    throw_invalid(
        "several processes write shards, and one file is written by one of them: choose a folder "
        "instead of '{}'",
        convert.output_dir);
  if (options_.processing) {
    preprocessing_ = std::make_unique<Preprocessing>(
        PreprocessOptions{.processing = *options_.processing, .convert = convert});
    found_.kept = preprocessing_->choose();
    convert = preprocessing_->conversion_of(found_.kept);
  }
  conversion_ = std::make_unique<OpenConversion>(convert);
  run_ = std::make_unique<ConversionRun>(*conversion_);
  found_.gene_order = conversion_->gene_order();
  if (!missing_shards().empty() && needs_first_pass(options_))
    write_first_pass(run_->target(), found_);
  task_ = task_text(options, run_->plan());
}

std::int64_t SharedConversion::cells_of(std::int64_t shard) const {
  return conversion_->shard_end(shard) - conversion_->shard_begin(shard);
}

void SharedConversion::add(const std::string& text) {
  const std::string& dir = options_.convert.output_dir;
  run_->add(shard::shard_from_json(shard::parse_json(text, dir), dir));
}

SharedResult SharedConversion::finish() {
  run_->require_all_shards();
  run_->remove_leftovers();
  SharedResult result;
  result.shards = run_->finish();
  result.shards.seconds = clock_.seconds();
  const std::int64_t resumed = result.shards.n_shards_resumed * options_.convert.shard_size;
  const std::int64_t written = std::max<std::int64_t>(0, n_cells() - resumed);
  result.shards.cells_per_second = static_cast<double>(written) / result.shards.seconds;
  if (!preprocessing_) return result;
  PreprocessResult& processed = result.processed.emplace();
  describe_shards(result.shards, processed);
  preprocessing_->describe(processed);
  processed.processing_json = conversion_->sources().processing_json();
  processed.seconds = clock_.seconds();
  processed.cells_per_second = static_cast<double>(processed.n_cells_before) / processed.seconds;
  return result;
}

}  // namespace cellfeed::convert
