// convert_to_shards: any readable inputs -> a shard directory, in bounded memory, resumable after a
// kill at any moment.
//
// Thread contract: reads, decodes and encodes on a pool of options.threads; writes and reports
// progress on the caller.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "cellfeed/convert/inputs/collection_sources.h"
#include "cellfeed/convert/inputs/sources.h"
#include "cellfeed/convert/progress.h"
#include "cellfeed/convert/target_directory.h"
#include "cellfeed/exec/available_memory.h"
#include "cellfeed/format/shard/encoded_rows.h"
#include "cellfeed/format/shard/manifest.h"
#include "cellfeed/io/directory.h"

namespace cellfeed::convert {

// The shards that cells are appended to; see append/shard_base.h.
struct ShardBase;

struct ConvertOptions {
  std::vector<std::string> inputs;  // files, globs or shard directories; cells keep this order
  std::string output_dir;
  std::optional<io::Directory> directory{};  // output_dir, where that is held open
  std::int64_t shard_size = 100000;  // cells; larger: fewer files, more to repeat after a kill
  format::shard::Layout layout = format::shard::Layout::kPacked;
  std::string layer = "X";
  // Beside it, by name: layers have its genes. obsm is stored packed whatever the layout, and
  // exact.
  std::vector<std::string> layers{}, obsm{};
  ObsChoice obs{};  // columns to write
  format::FileChoice choice{};
  // kMean: 20-25 % smaller, reads inputs twice.
  format::shard::GeneOrder gene_order = format::shard::GeneOrder::kSource;
  std::vector<std::string> genes;    // exactly this axis, in this order; empty: the inputs' own
  bool refuse_absent_genes = false;  // kNoSuchKey where genes are in no input; else they are empty
  std::string join;                  // "", "inner" or "outer": see SourceOptions
  bool shuffle = false;    // all cells of all inputs in one random order, by seed: see CellOrder
  std::uint64_t seed = 0;  // of the shuffle
  std::vector<std::string> var_keys{};  // see SourceOptions
  bool make_unique = false;             // number repeated gene names instead of refusing them
  int threads = 0;                      // 0: what the machine allows
  std::int64_t memory_budget = exec::default_memory_budget(
      512'000'000);  // bytes held by pieces under way and caches of compressed inputs
  ExistingTarget existing = ExistingTarget::kRefuse;
  // Where cells come behind those of shards that are there: layout, layers, obsm, gene_order and
  // genes are theirs. REQUIRES: existing is kAppend or kResumeAppend. Null: they get a directory of
  // their own.
  std::shared_ptr<const ShardBase> base{};
  format::RowMaker row_maker{};  // as SourceOptions's
  // Of the inputs: an expression over obs (collection::Filter) that is true of the cells to
  // convert;
  // "": all of them.
  std::string filter{};
  // What is converted instead of inputs, with the layers and obsm that were opened with it: layer,
  // layers, obsm, join, genes, var_keys, make_unique and what says how files are read stay as they
  // are. Null: the inputs.
  ChosenCells cells{};
  // What is converted instead of inputs, as PreprocessedSources gives it; null: the inputs.
  std::function<Sources()> open_sources{};
  // With these: matrices beside them, in the place of layers and obsm.
  std::function<std::vector<MatrixSource>()> open_further{};
  // Integers of X are written as int64: sums of entries that occur more than once need not fit the
  // type that they are stored in.
  bool widens_integers = false;
  std::string selection_json = "{}";  // of these, as Manifest's
  bool carries_annotations = true;    // uns and varm, where there is one input
  bool names_resume = true;           // errors say how to go on from what is finished
  ProgressCallback progress;
  std::stop_token stop;  // kCancelled; finished shards stay, to be resumed
};

struct ConvertResult {
  std::int64_t n_cells = 0;
  std::int64_t n_genes = 0;
  std::int64_t nnz = 0;
  std::int64_t n_shards = 0;
  std::int64_t n_shards_resumed = 0;  // finished by an earlier run
  std::int64_t not_finite = 0;        // NaN and infinite values, stored as they are
  std::int64_t n_absent_genes = 0;    // of options.genes: in no input, stored as empty columns
  std::string absent_genes_text;      // what to say of them; empty where all is found
  // Of the input that loses most to the join or to options.genes: columns that no shard has. Totals
  // of cells over all of them are kept.
  std::int64_t n_genes_left_out = 0;
  std::string left_out_text;  // what of the files was not read though nobody chose that
  std::vector<std::string> filter_warnings;  // as collection::Filter's
  // Of writers that were killed, in a bucket.
  std::int64_t n_uploads_removed = 0;
  std::vector<std::string> warnings;  // of those that are left
  std::int64_t bytes = 0;             // of the directory's files
  double seconds = 0;
  double cells_per_second = 0;  // in this run
};

// Of ConvertOptions::widens_integers: whether int64 holds more than this type.
bool can_widen(DType stored);

// How the inputs of a conversion are opened, but for the filter.
SourceOptions source_options(const ConvertOptions& options);

// Throws kInvalidArgument, kAlreadyExists, kNoSpace, kCancelled, kPrecision and what reading
// throws. Nothing but whole, resumable shards is left behind.
ConvertResult convert_to_shards(const ConvertOptions& options);

}  // namespace cellfeed::convert
