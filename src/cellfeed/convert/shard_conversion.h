// convert_to_shards: cells -> a shard directory, in bounded memory, resumable after a
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

#include "cellfeed/convert/inputs/input_cells.h"
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
  InputCells input{};
  std::string output_dir;
  std::optional<io::Directory> directory{};  // output_dir, where that is held open
  std::int64_t shard_size = 100000;  // cells; larger: fewer files, more to repeat after a kill
  // obsm is stored packed whatever the layout, and exact.
  format::shard::Layout layout = format::shard::Layout::kPacked;
  ObsChoice obs{};  // columns to write
  // kMean: 20-25 % smaller, reads inputs twice.
  format::shard::GeneOrder gene_order = format::shard::GeneOrder::kSource;
  bool shuffle = false;    // all cells in one random order, by seed: see CellOrder
  std::uint64_t seed = 0;  // of the shuffle
  int threads = 0;         // 0: what the machine allows
  std::int64_t memory_budget = exec::default_memory_budget(
      512'000'000);  // bytes held by pieces under way and caches of compressed inputs
  ExistingTarget existing = ExistingTarget::kRefuse;
  // Where cells come behind those of shards that are there: layout and gene_order are theirs.
  // REQUIRES: existing is kAppend or kResumeAppend. Null: they get a directory of their own.
  std::shared_ptr<const ShardBase> base{};
  // Integers of X are written as int64: sums of entries that occur more than once need not fit the
  // type that they are stored in.
  bool widens_integers = false;
  bool carries_annotations = true;  // uns and varm, where there is one input
  bool names_resume = true;         // errors say how to go on from what is finished
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
  std::int64_t n_absent_genes = 0;    // in no input, stored as empty columns
  // Columns of one input, the one with most of them, that no shard has. Totals of cells over all of
  // them are kept.
  std::int64_t n_genes_left_out = 0;
  std::string left_out_text;  // annotations that were not carried, and why
  // Of writers that were killed, in a bucket.
  std::int64_t n_uploads_removed = 0;
  std::vector<std::string> warnings;  // of those that are left
  std::int64_t bytes = 0;             // of the directory's files
  double seconds = 0;
  double cells_per_second = 0;  // in this run
};

// Of ConvertOptions::widens_integers: whether int64 holds more than this type.
bool can_widen(DType stored);

// Throws kInvalidArgument, kAlreadyExists, kNoSpace, kCancelled, kPrecision and what reading
// throws. Nothing but whole, resumable shards is left behind.
ConvertResult convert_to_shards(const ConvertOptions& options);

}  // namespace cellfeed::convert
