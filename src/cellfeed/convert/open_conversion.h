// OpenConversion: the cells of a conversion, and all that decides the bytes of its shards, which do
// not depend on who writes them.
//
// Thread contract: write_shards() on several threads at once, once the order of genes is known; the
// rest on one. Reads, decodes and encodes on a pool of options.threads; reports progress on the
// caller.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cellfeed/convert/cell_encoder.h"
#include "cellfeed/convert/inputs/matrix_sources.h"
#include "cellfeed/convert/shard_conversion.h"
#include "cellfeed/convert/shard_passes.h"
#include "cellfeed/exec/thread_pool.h"
#include "cellfeed/format/shard/file_names.h"
#include "cellfeed/format/shard/manifest.h"

namespace cellfeed::convert {

// Where shards are written.
struct ShardTarget {
  io::Directory dir;
  format::shard::Generation generation = 0;
};

// Which shards are written, and who hears of it.
struct WantedShards {
  std::vector<bool> is_wanted;  // of all shards
  // Of each that is whole; on the calling thread.
  std::function<void(const format::shard::ShardEntry&)> finished;
  ProgressCallback progress{};
  std::stop_token stop{};
  std::int64_t n_callers = 1;  // of write_shards at once, which share the memory budget
};

class OpenConversion {
 public:
  // Throws kInvalidArgument and what opening throws; nothing is written.
  explicit OpenConversion(const ConvertOptions& options);

  const ConvertOptions& options() const { return options_; }
  const Sources& sources() const { return sources_; }
  exec::ThreadPool& pool() { return pool_; }
  // See conversion_plan.h.
  std::string plan() const;
  std::int64_t n_shards() const {
    return (sources_.n_cells() + options_.shard_size - 1) / options_.shard_size;
  }
  // Of the first shard: its number, and its first cell in the directory. Other shards than those
  // that are written here, and their cells, come before it.
  std::int64_t first_shard() const;
  std::int64_t first_cell() const;
  // Of the cells of sources().
  std::int64_t shard_begin(std::int64_t shard) const { return shard * options_.shard_size; }
  std::int64_t shard_end(std::int64_t shard) const {
    return std::min(sources_.n_cells(), (shard + 1) * options_.shard_size);
  }

  // REQUIRED before cells are read where inputs are not stored by rows. Temporary files lie in the
  // directory.
  void transpose_columns(const io::Directory& dir);
  // The order that options.gene_order asks for; reads all cells where that is the mean.
  void order_genes();
  // The same, as another process found it; empty: that of the inputs.
  void set_gene_order(const std::vector<std::int64_t>& order);
  const std::vector<std::int64_t>& gene_order() const { return encoder_.gene_order(); }

  // Cells per second.
  double write_shards(const ShardTarget& target, const WantedShards& wanted);
  format::shard::FileEntry write_genes(const ShardTarget& target) const;
  // None where there are none.
  std::optional<format::shard::FileEntry> write_annotations(const ShardTarget& target);
  // All but the files and the shards that are written; with those that they come behind.
  format::shard::Manifest make_manifest() const;
  // What the inputs and the manifest say.
  ConvertResult result_of(const format::shard::Manifest& manifest) const;

 private:
  // A matrix beside the first.
  struct Further {
    MatrixSource source;
    CellEncoder encoder;
  };
  void open_further();
  std::vector<MatrixSource> further_sources() const;
  void require_matrices_of_base(std::vector<MatrixSource>& matrices) const;
  DType dtype_of(const MatrixSource& source, std::size_t number) const;
  format::shard::Manifest describe() const;
  std::vector<const Sources*> sources_by_columns() const;
  format::shard::Layout layout_of(const MatrixSource& source) const;
  format::shard::ShardSpec shard_spec(const ShardTarget& target) const;

  ConvertOptions options_;
  exec::ThreadPool pool_;
  std::string left_out_text_;
  Sources sources_;
  CellEncoder encoder_;
  std::vector<std::unique_ptr<Further>> further_;
  std::shared_ptr<arrow::Schema> obs_schema_;
  std::shared_ptr<const collection::CacheShare> cache_;  // of options_.input
};

}  // namespace cellfeed::convert
